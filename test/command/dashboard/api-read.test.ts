import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import parsePrometheus from 'parse-prometheus-text-format';
import { expect, test } from 'vitest';
import { runFilesOf } from '../../../src/execution/run-files.ts';
import { openQueue } from '../../../src/index.ts';
import { EXPECTED_TIME } from '../../../src/report/text/filters.ts';
import { incidentsOf } from '../../../src/store/statements/monitor/incidents.ts';
import { machineName } from '../../../src/system/process/identity.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';
import { type Body, brokenImport, openReadApi, readDocument, writeHistory } from '../../support/web/dashboard.ts';
import { writeLog } from '../../support/written-log.ts';

/** A root where much has happened: runs, failures, incidents, jobs in all states, pauses and mutes. */
async function makeBusySite() {
  const failing = { 'hourly/import-orders': brokenImport };
  const { root, log, scripts } = await writeHistory({ failing, running: { 'daily/backup-database': 60_000 } });
  const write = (path: string, text: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), text, { mode: 0o600 });
  };
  write('jobs/queue/mail/welcome.mjs', '// @timeout 5m\nexport default () => {};\n');
  write('jobs/hourly/notes.txt', 'no script');
  const queue = await openQueue({ root });
  const [child, parent] = [{ uniqueKey: 'u', group: 'g', repeat: 'SCHEDULED, +1 HOUR' }, { priority: 900 }];
  await queue.add('mail/welcome', { to: 'ada@example.org', n: [1, null] }, child);
  await queue.add('mail/welcome', {}, { ...parent, runAt: new Date(Date.now() + 3_600_000) });
  await queue.add('export', 'x');
  const taken = await queue.claim('export');
  await queue.fail(taken ?? 0, { reason: 'no disk' });
  await queue.add('export');
  await queue.finish((await queue.claim('export')) ?? 0, { result: { rows: 3 } });
  await queue.pause('mail/*', { for: '2h' });
  await queue.close();
  await incidentsOf(log.store.statements).mute({ name: 'daily/*', until: null, createdAt: Date.now() });
  return { root, log, scripts, write, job: taken?.id, api: openReadApi(root) };
}

/** All that can be asked of a busy site: one question at least for each route. */
const questions = [
  ...['overview', 'overview?since=30d&tier=hourly', 'status', 'tiers', 'tiers/hourly', 'scripts'],
  ...['scripts?outcome=failed', 'scripts/hourly/import-orders', 'scripts/hourly%2Fimport-orders'],
  ...['scripts/queue/mail/welcome', 'scripts/export', 'why/hourly/import-orders', 'why/nobody'],
  ...[
    'runs',
    'runs?script=hourly/import-orders&outcome=failed,crashed',
    'runs?tier=daily&limit=2',
    'runs?job=JOB',
    'runs/1',
  ],
  ...['runs?script=hourly/*&search=orders&count=true', 'failures', 'failures?since=30d&limit=2', 'search?q=ada'],
  ...['search?q=hourly/*&limit=1', 'activity?by=*&subject=mail/*', 'activity?event=job-failed&search=disk'],
  'jobs?state=failed&count=true&since=yesterday',
  ...['jobs', 'jobs?state=failed', 'jobs?order=next', 'jobs?order=kick&name=export', 'jobs?search=ada', 'jobs/counts'],
  ...['scripts/hourly/import-orders?why=true', 'scripts/queue/mail/welcome?why=true', 'queue'],
  ...['jobs/totals', 'jobs/pace', 'jobs/JOB', 'next', 'next?for=7d&limit=3', 'workers', 'workers?kind=tier'],
  ...['activity', 'activity?order=asc&limit=3', 'activity?job=JOB', 'activity?worker=1', 'metrics/1h', 'metrics/1w'],
  ...['metrics/1d?subject=*&subject=hourly/import-orders&limit=1'],
  ...['incidents', 'incidents?state=all'],
  ...['mutes', 'pauses', 'health', 'health?code=script-failing,disk-full', 'settings'],
];

test('each answer is as the document says, on a busy site, on an empty one, and where nothing is', async () => {
  const { api, job } = await makeBusySite();
  for (const question of questions) await api.ask(`/api/${question.replace('JOB', String(job))}`);
  const asked = new Set(questions.map((question) => question.split(/[/?]/, 1)[0]));
  const named = Object.keys(readDocument.paths).filter(
    (path) => path.startsWith('/api/') && readDocument.paths[path].get,
  );
  const others = /^\/api\/(events|session|openapi)|\/output$/;
  for (const path of named.filter((each) => !others.test(each))) expect([...asked]).toContain(path.split('/')[2]);

  const empty = openReadApi(makeTemporaryRoot());
  const known = questions.filter((question) => !/\/|script=|why/.test(question));
  for (const question of known) await empty.ask(`/api/${question.replace('JOB', '1')}`);
  expect(await empty.ask('/api/jobs')).toEqual({ items: [], next: null, total: null, searched: null });
  expect(await empty.ask('/api/health')).toMatchObject({ status: 'unknown' });
});

test('a script, a run and a job have all that a page shows of them', async () => {
  const { api, log } = await makeBusySite();
  const script = await api.ask('/api/scripts/hourly/import-orders');
  expect(script).toMatchObject({
    ...{ script: 'hourly/import-orders', presence: 'present', failed: 1, runs: 20 },
    lastError: 'Error: orders.csv:3 does not have 3 columns',
    file: { options: { isPinged: false }, refusals: [] },
    usual: { runs: 19 },
    incidents: [{ subject: 'hourly/import-orders', recoveredAt: null }],
  });
  expect(script.usual.durationMs).toBeGreaterThan(0);
  expect(script).toMatchObject({ verbs: ['run', 'pause'], why: null });
  const explained = await api.ask('/api/scripts/hourly/import-orders?why=true');
  expect({ ...explained.why, chain: null }).toEqual(await api.ask('/api/why/hourly/import-orders'));
  const [failed] = (await api.ask('/api/runs?outcome=failed&tier=hourly')).items;
  const run = await api.ask(`/api/runs/${failed.id}`);
  expect(run).toMatchObject({ summary: 'Error: orders.csv:3 does not have 3 columns', change: null, hasOutput: true });
  expect(run.usual).toEqual(script.usual);
  const good = await api.ask(`/api/runs/${run.lastGood}`);
  expect(good).toMatchObject({ script: 'hourly/import-orders', outcome: 'succeeded', summary: null, comparison: null });
  const { comparison } = await api.ask(`/api/runs/${run.id}?with=${good.id}`);
  expect(comparison).toMatchObject({ with: good.id, outcome: 'succeeded', startedAt: good.startedAt });
  expect(comparison.figures[0]).toEqual({
    ...{ measure: 'duration', name: '' },
    ...{ value: run.durationMs, other: good.durationMs },
  });
  expect(await api.refused(`/api/runs/${run.id}?with=0`)).toMatchObject({ status: 400 });
  expect(await api.refused(`/api/runs/${run.id}?with=9999`)).toMatchObject({ status: 404 });
  expect(good.startedAt < run.startedAt).toBe(true);
  expect(await api.text(`/api/runs/${run.id}/output`)).toBe('reading orders.csv\n');

  expect(run).toMatchObject({ scriptVerbs: ['run', 'pause'], queueJob: null, incidents: script.incidents });

  const before = await log.addRun('hourly/new', 1_000_000, { content_hash: 'a'.repeat(64) });
  const after = { outcome: 'failed', reason: 'exit code 1', content_hash: 'b'.repeat(64) } as const;
  const changed = await api.ask(`/api/runs/${await log.addRun('hourly/new', 2_000_000, after)}`);
  expect(changed).toMatchObject({
    host: machineName(),
    lastGood: before,
    change: { lastSuccessAt: '1970-01-01T00:16:40.000Z' },
  });
  expect(changed.changeText).toMatch(/^its content has changed: it last succeeded /);
  const versions = [
    { contentHash: 'b'.repeat(64), firstRunAt: '1970-01-01T00:33:20.000Z' },
    { contentHash: 'a'.repeat(64), firstRunAt: '1970-01-01T00:16:40.000Z' },
  ];
  expect(await api.ask('/api/scripts/hourly/new')).toMatchObject({ presence: 'gone', file: null, versions, verbs: [] });

  const jobs = (await api.ask('/api/jobs?order=asc')).items;
  const [repeating, delayed, buried, finished] = jobs;
  expect(repeating).toMatchObject({ data: { to: 'ada@example.org', n: [1, null] }, pause: { name: 'queue/mail/*' } });
  expect(delayed).toMatchObject({ priority: 900, state: 'queued' });
  expect(buried).toMatchObject({ state: 'failed', reason: 'no disk', data: 'x' });
  const story = await api.ask(`/api/jobs/${finished.id}`);
  expect(story).toMatchObject({ state: 'finished', result: { rows: 3 }, runs: [{ outcome: 'succeeded' }] });
  expect(story.activity.map(({ event }: Body) => event)).toEqual(['job-queued', 'run-started', 'job-finished']);
  const told = (await api.ask(`/api/activity?order=asc&job=${finished.id}`)).items;
  expect(story.activity.map(({ text }: Body) => text)).toEqual(told.map(({ text }: Body) => text));
  const [tried] = (await api.ask(`/api/runs?job=${buried.id}`)).items;
  const { queueJob, scriptVerbs } = await api.ask(`/api/runs/${tried.id}`);
  expect(queueJob).toEqual({ id: buried.id, name: 'export', verbs: (await api.ask(`/api/jobs/${buried.id}`)).verbs });
  expect(scriptVerbs).toEqual([]);
});

test('the queue, who is at work and the metrics have in one answer what a page shows of them', async () => {
  const { api } = await makeBusySite();
  const queue = await api.ask('/api/queue');
  const [counts, totals] = [await api.ask('/api/jobs/counts'), await api.ask('/api/jobs/totals')];
  expect(queue).toMatchObject({ counts: counts.items, totals: totals.items, handlers: ['mail/welcome'] });
  expect(queue.pace.names).toEqual((await api.ask('/api/jobs/pace')).names);
  const { jobs } = await api.ask('/api/metrics/1d');
  for (const state of ['ready', 'delayed', 'failed', 'finished']) {
    expect(jobs[state]).toBe(counts.items.reduce((sum: number, count: Body) => sum + count[state], 0));
  }
  const metrics = await api.ask('/api/metrics/1d');
  const ofAll = await api.ask('/api/metrics/1d?buckets=*');
  const endedBySubject = (answer: Body) => answer.series.map(({ subject, total }: Body) => [subject, total.ended]);
  expect(endedBySubject(ofAll)).toEqual(endedBySubject(metrics));
  const [all, ...others] = ofAll.series;
  const endedByTime = (buckets: Body[]) => buckets.map(({ from, ended }) => [from, ended]);
  expect(endedByTime(all.buckets)).toEqual(endedByTime(metrics.series[0].buckets));
  expect(all.subject).toBe('*');
  expect(all.buckets.length).toBeGreaterThan(0);
  expect(others.flatMap(({ buckets }: Body) => buckets)).toEqual([]);
  const { atWork, items } = await api.ask('/api/workers?state=finished&limit=1');
  expect(items).toHaveLength(1);
  expect(atWork).toMatchObject([{ tier: 'daily', runs: [{ script: 'daily/backup-database' }] }]);
});

test('the output that a running run has written so far is there', async () => {
  const { api, root } = await makeBusySite();
  const [running] = (await api.ask('/api/runs?outcome=running')).items;
  const { worker } = (await api.ask('/api/activity')).items.find(({ run }: Body) => run === running.id);
  const { output } = runFilesOf(makeStateOf(root), `${worker}.1`);
  mkdirSync(join(output, '..'), { recursive: true });
  appendFileSync(output, 'grüße\n');
  expect(await api.text(`/api/runs/${running.id}/output`)).toBe('grüße\n');
  appendFileSync(output, 'more\n');
  expect(await api.text(`/api/runs/${running.id}/output?from=8`)).toBe('more\n');
  expect(await api.ask('/api/status')).toMatchObject({ running: [{ id: running.id }] });
});

/** All items of a list, page by page; between two pages something happens. */
async function readAll(api: { ask(path: string): Promise<Body> }, path: string, meanwhile: () => Promise<unknown>) {
  const items: Body[] = [];
  let next: string | null = null;
  do {
    const page: Body = await api.ask(path + (next === null ? '' : `&cursor=${next}`));
    items.push(...page.items);
    next = page.next;
    if (next !== null) await meanwhile();
  } while (next !== null);
  return items;
}

test('pages have no gaps and no repeats, while more is added', async () => {
  const { api, log, root, job } = await makeBusySite();
  const queue = await openQueue({ root });
  await queue.addMany(Array.from({ length: 12 }, () => ({ name: 'bulk' })));
  const addRun = () => log.addRun('hourly/import-orders', Date.now());
  const addJob = () => queue.add('bulk');
  const lists = [
    { path: 'runs?', add: addRun },
    { path: 'runs?script=hourly/clean-uploads&', add: addRun },
    { path: 'runs?outcome=failed,running&', add: addRun },
    { path: `runs?job=${job}&`, add: addRun },
    { path: 'workers?', add: addRun },
    { path: 'activity?', add: addJob },
    { path: `activity?job=${job}&`, add: addJob },
    { path: 'jobs?', add: addJob },
    { path: 'incidents?state=all&', add: addJob },
  ];
  for (const { path, add } of lists) {
    const all = (await api.ask(`/api/${path}limit=500`)).items;
    const limit = Math.max(1, Math.ceil(all.length / 4));
    expect(await readAll(api, `/api/${path}limit=${limit}`, add)).toEqual(all);
    const sized = await readAll(api, `/api/${path}limit=${all.length}`, add);
    expect(sized.length).toBeGreaterThanOrEqual(all.length);
  }
  for (const path of ['jobs?order=asc&name=bulk&', 'activity?order=asc&until=1m&']) {
    const all = (await api.ask(`/api/${path}limit=500`)).items;
    const read = await readAll(api, `/api/${path}limit=7`, async () => {});
    expect(read).toEqual(all);
    expect((await api.ask(`/api/${path}limit=2&offset=3`)).items).toEqual(all.slice(3, 5));
  }
  // Who reads from the oldest on also finds what is added meanwhile, once.
  let left = 3;
  const grown = await readAll(api, '/api/jobs?order=asc&name=bulk&limit=7', async () => left-- > 0 && addJob());
  expect(new Set(grown.map(({ id }) => id)).size).toBe(grown.length);
  await queue.close();
});

/** The lists that are read piece by piece, each with filters under which something is left. */
const pagedLists: Readonly<Record<string, readonly string[]>> = {
  '/api/runs': ['', 'outcome=failed', 'script=hourly/*'],
  '/api/jobs': ['', 'state=failed', 'name=mail/*'],
  '/api/activity': ['', 'event=run-started', 'worker=1', 'since=1h', 'job=JOB'],
  '/api/workers': ['', 'kind=tier', 'state=finished', 'tier=hourly'],
  '/api/incidents': ['', 'state=all', 'subject=hourly/import-orders'],
};

/** Those that are always whole. */
const wholeLists = ['failures', 'jobs/counts', 'jobs/totals', 'mutes', 'pauses', 'scripts', 'tiers'];

test('each list keeps one convention: items and next; where it has pages, limit, cursor and count', async () => {
  const { api, job } = await makeBusySite();
  const listed = Object.entries<Body>(readDocument.paths).filter(([, { get }]) => {
    const schema = get?.responses[200].content['application/json']?.schema;
    return schema?.properties?.items !== undefined;
  });
  const names = listed.map(([path]) => path);
  expect(names.toSorted()).toEqual(
    [...Object.keys(pagedLists), ...wholeLists.map((each) => `/api/${each}`)].toSorted(),
  );
  for (const [path, { get }] of listed) {
    const parameters = Object.fromEntries((get.parameters ?? []).map(({ name, schema }: Body) => [name, schema]));
    const { required } = get.responses[200].content['application/json'].schema;
    expect({ path, required }).toEqual({ path, required: expect.arrayContaining(['items', 'next']) });
    if (!(path in pagedLists)) {
      expect({ path, next: (await api.ask(path)).next, cursor: parameters.cursor }).toEqual({ path, next: null });
      continue;
    }
    expect({ path, ...parameters }).toMatchObject({
      ...{ path, cursor: { type: 'string' }, count: { enum: ['true'] } },
      limit: { type: 'integer', minimum: 1, maximum: 500, default: 50 },
    });
    for (const filter of pagedLists[path] ?? []) {
      const question = `${path}?${filter.replace('JOB', String(job))}&`.replace('?&', '?');
      const all = (await api.ask(`${question}limit=500`)).items;
      expect(all.length, question).toBeGreaterThan(0);
      expect(await api.ask(`${question}limit=500`)).toMatchObject({ next: null, total: null });
      expect({ question, ...(await api.ask(`${question}limit=1&count=true`)) }).toMatchObject({
        ...{ question, items: [all[0]], total: all.length, next: all.length === 1 ? null : expect.any(String) },
      });
      expect((await api.refused(`${question}limit=501`)).errors).toHaveLength(1);
    }
  }
  expect(await api.ask('/api/activity?search=disk&count=true')).toMatchObject({ total: null });
});

const expectsTime = `must be ${EXPECTED_TIME}`;

test.each([
  // As LaterJob's own tests have it: limits, offsets, orders and dates that are none.
  ['jobs?limit=-1', 'limit: must be a whole number from 1 to 500, found "-1"'],
  ['jobs?limit=10000000', 'limit: must be a whole number from 1 to 500, found "10000000"'],
  ['jobs?limit=0', 'limit: must be a whole number from 1 to 500, found "0"'],
  ['jobs?limit=501', 'limit: must be a whole number from 1 to 500, found "501"'],
  ['jobs?limit=1&limit=2', 'limit: must be one value'],
  ['jobs?offset=-1', 'offset: must be a whole number from 0 to 10000, found "-1"'],
  ['jobs?offset=9999999999999999999', 'offset: must be a whole number from 0 to 10000, found "9999999999999999999"'],
  ['jobs?order=none', 'order: must be one of asc, desc, next, soonest, kick, found "none"'],
  ['jobs?until=2012', `until: ${expectsTime}, found "2012"`],
  ['jobs?since=2012', `since: ${expectsTime}, found "2012"`],
  ['jobs?state=6', /^state: must be one or more of queued, claimed, .*; found "6"$/],
  ['jobs?after=1h', 'after: is not known here'],
  ['jobs?since=1h&until=2h', 'since: 1h is not before 2h, so there can be nothing between them'],
  ['jobs?cursor=bm9uZQ', 'cursor: must be `next` of an answer to the same question'],
  ['jobs?order=next&cursor=WzFd', 'cursor: goes with the orders asc and desc only'],
  ['jobs?search=a&order=next', 'search: goes with the orders asc and desc only'],
  ['jobs?limt=5', 'limt: is not known here'],
  ['jobs/1.5', 'id: must be a whole number from 1 to 9007199254740991, found "1.5"'],
  ['activity?limit=501', 'limit: must be a whole number from 1 to 500, found "501"'],
  ['activity?offset=-1', 'offset: must be a whole number from 0 to 10000, found "-1"'],
  ['activity?order=none', 'order: must be one of asc, desc, found "none"'],
  ['activity?until=2012', `until: ${expectsTime}, found "2012"`],
  ['activity?worker=x', 'worker: must be a whole number from 1 to 9007199254740991, found "x"'],
  ['metrics/1h?limit=1001', 'limit: must be a whole number from 1 to 1000, found "1001"'],
  ['metrics/1h?limit=-1', 'limit: must be a whole number from 1 to 1000, found "-1"'],
  ['metrics/1h?since=2012', `since: ${expectsTime}, found "2012"`],
  ['metrics/2h', 'period: must be one of 1h, 6h, 12h, 1d, 1w, found "2h"'],
  ['next?limit=0', 'limit: must be a whole number from 1 to 5000, found "0"'],
  ['next?for=soon', 'for: must be a duration such as 1h, 24h or 7d, found "soon"'],
  ['next?for=32d', 'for: must end in the future, within 31 days'],
  ['next?from=2d', 'from: is not known here'],
  ['runs?outcome=fine', /^outcome: must be one or more of running, succeeded, .*; found "fine"$|found "fine"$/],
  ['runs/0', 'id: must be a whole number from 1 to 9007199254740991, found "0"'],
  ['runs/1/output?from=-1', 'from: must be a whole number from 0 to 9007199254740991, found "-1"'],
  ['why/hourly/x?zone=Mars', 'zone: must be a time zone, found "Mars"'],
  ['health?code=all', /^code: must be one or more of tier-overdue, .*; found "all"$/],
  ['incidents?state=bad', 'state: must be one of open, over, all, found "bad"'],
])('%s is refused with what was expected', async (path, error) => {
  const { refused } = openReadApi(makeTemporaryRoot());
  const { status, detail, errors } = await refused(`/api/${path}`);
  expect({ status, detail }).toEqual({ status: 400, detail: 'Some values of the request are not valid.' });
  expect(errors).toEqual([typeof error === 'string' ? error : expect.stringMatching(error)]);
});

test('an unknown name is refused with the nearest known one', async () => {
  const { api } = await makeBusySite();
  const notFound = async (path: string) => {
    const { status, detail } = await api.refused(path);
    return `${status} ${detail}`;
  };
  expect(await notFound('/api/scripts/hourly/import-order')).toMatch(
    /^404 There is no script .*; did you mean hourly\/import-orders\? `npx folder-runner list` shows all scripts/,
  );
  expect(await notFound('/api/tiers/hurly')).toMatch(/^404 There is no tier "hurly".* did you mean hourly\?/);
  expect(await notFound('/api/runs/999999')).toMatch(/^404 There is no run 999999 in the log: the newest is \d+;/);
  expect(await notFound('/api/runs/999999/output')).toMatch(/^404 There is no run 999999/);
  expect(await notFound('/api/jobs/999999')).toMatch(/^404 There is no job 999999/);
  expect(await notFound('/api/runs?script=hourly/nothing')).toMatch(/^404 There is no script/);
  expect(await notFound('/api/nothing')).toBe('404 There is nothing at this address.');
});

test('all lists have the same limits, the same wrapper and a cursor; states of jobs go together', async () => {
  const { api } = await makeBusySite();
  for (const list of ['jobs', 'runs', 'activity', 'incidents', 'workers']) {
    const { parameters } = readDocument.paths[`/api/${list}`].get;
    const limit = parameters.find(({ name }: { name: string }) => name === 'limit');
    expect([list, limit.schema]).toEqual([list, { type: 'integer', minimum: 1, maximum: 500, default: 50 }]);
    expect(Object.keys(await api.ask(`/api/${list}?limit=1`))).toEqual(expect.arrayContaining(['items', 'next']));
  }
  const states = async (words: string) =>
    new Set((await api.ask(`/api/jobs?state=${words}`)).items.map(({ state }: { state: string }) => state));
  expect(await states('ready,failed')).toEqual(new Set(['failed', 'queued']));
  expect(await states('failed,finished')).toEqual(new Set(['failed', 'finished']));
});

test('times within sentences are of the zone that is asked for', async () => {
  const { api } = await makeBusySite();
  const hourIn = async (zone: string) => {
    const { findings } = await api.ask(`/api/why/hourly/import-orders?zone=${zone}`);
    const { text } = findings.find(({ topic }: { topic: string }) => topic === 'last run');
    expect(text).toMatch(/\d\d:\d\d/);
    return Number(/(\d\d):\d\d/.exec(text)?.[1]);
  };
  expect((await hourIn('Pacific/Kiritimati')) - (await hourIn('UTC'))).toSatisfy((hours) => [14, -10].includes(hours));
});

test('without a log that can be read, what only it could tell is a sentence, and the rest is told', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/clean.sh': '#!/bin/sh\n' });
  const { database } = makeStateOf(root);
  writeFileSync(database, 'this is no database, whatever its name says', { mode: 0o600 });
  const { ask, refused } = openReadApi(root);
  for (const path of ['runs', 'jobs', 'jobs/1', 'scripts', 'activity', 'metrics/1h', 'workers', 'pauses']) {
    const { status, detail } = await refused(`/api/${path}`);
    expect(detail).not.toContain(root);
    expect({ path, status, isSentence: /<root>\/\.runner\/activity\.db.*\.$/.test(detail) }).toEqual({
      path,
      status: 503,
      isSentence: true,
    });
  }
  expect(await refused('/metrics')).toMatchObject({ status: 503 });
  expect((await ask('/api/overview')).scripts).toMatchObject([{ script: 'hourly/clean', runs: 0 }]);
  const { isLogUnread, logProblem, queue } = await ask('/api/status');
  expect({ isLogUnread, ready: queue.ready }).toEqual({ isLogUnread: true, ready: null });
  expect(logProblem).toContain('<root>/.runner/activity.db');
  for (const list of ['jobs', 'runs', 'activity', 'incidents', 'workers'])
    expect(await refused(`/api/${list}?cursor=bm9uZQ`)).toMatchObject({ status: 400 });
  expect(await ask('/api/health')).toMatchObject({ status: 'unknown' });
  expect((await ask('/api/why/hourly/clean')).conclusion).toMatch(/\.$/);
  rmSync(database);
  const log = await writeLog(root);
  await log.addRun('hourly/clean', Date.now());
  expect((await ask('/api/runs')).items).toHaveLength(1);
});

test('settings are told without anything that may be a secret', async () => {
  const secrets = {
    env: { API_KEY: 'hunter2-env' },
    tiers: { hourly: { timeout: '5m', ping: 'https://hc.example.org/hunter2-tier' } },
    scripts: { 'hourly/*': { ping: 'https://hc.example.org/hunter2-ping', env: ['DB_PASSWORD'] } },
    alerts: {
      channels: [
        { kind: 'webhook', name: 'ops', url: 'https://hooks.slack.com/services/hunter2-url' },
        { kind: 'webhook', preset: 'telegram', token: '$TELEGRAM', chat: 'hunter2-chat' },
        { kind: 'webhook', preset: 'pushover', token: '$PUSH', user: 'hunter2-user' },
        { kind: 'mail', to: 'hunter2@example.org', smtp: 'smtps://hunter2-smtp.example.org' },
        { kind: 'command', run: 'notify --token hunter2-command' },
      ],
    },
  };
  const files = { 'jobs/hourly/clean.sh': '#!/bin/sh\n# @ping https://hc.example.org/hunter2-tag\n' };
  const root = makeTemporaryRoot({ ...files, 'runner.config.json': JSON.stringify(secrets) });
  const { ask } = openReadApi(root);
  const { settings, problem, version } = await ask('/api/settings');
  expect({ problem, version }).toEqual({ problem: null, version: '1.2.3' });
  expect(settings).toMatchObject({
    env: ['API_KEY'],
    tiers: { hourly: { timeoutMs: 300_000, isPinged: true } },
    scripts: { 'hourly/*': { env: ['DB_PASSWORD'], isPinged: true } },
  });
  expect(settings.alerts.channels.map(({ kind, preset }: Body) => preset ?? kind)).toEqual([
    ...['webhook', 'telegram', 'pushover', 'mail', 'command'],
  ]);
  const { handlers: _, items } = await ask('/api/tiers');
  expect(items[0].scripts[0].options).toMatchObject({ isPinged: true });
  const all = [await ask('/api/settings'), await ask('/api/tiers'), await ask('/api/scripts/hourly/clean')];
  expect(JSON.stringify(all)).not.toContain('hunter2');
  writeFileSync(join(root, 'runner.config.json'), '{"concurency": 2, "env": {"A": 5}}');
  expect((await openReadApi(root).ask('/api/settings')).problem).toContain('concurency');
});

test('the next calls of a tier follow its last one, and Prometheus reads what there is', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/clean.sh': '#!/bin/sh\n' });
  const log = await writeLog(root);
  const now = Date.UTC(2026, 2, 10, 12, 30);
  // Two, so that they are expected to go on, whatever crontab there is.
  for (const hour of [11, 12]) await log.addPass('hourly', Date.UTC(2026, 2, 10, hour, 17));
  await log.addRun('hourly/clean', Date.UTC(2026, 2, 10, 12, 17));
  const { ask, text } = openReadApi(root, () => now);
  const { items, more, completeUntil } = await ask('/api/next?limit=3');
  expect(items.map(({ at, kind, name }: Body) => [at.slice(11, 16), kind, name])).toEqual([
    ...['13:17', '14:17', '15:17'].map((time) => [time, 'tier', 'hourly']),
  ]);
  expect([more, completeUntil]).toEqual([21, '2026-03-10T16:17:00.000Z']);
  const families = parsePrometheus(await text('/metrics')).map(({ name }) => name);
  expect(families).toContain('runner_runs_total');
});
