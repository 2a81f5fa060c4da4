import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createApi } from '../../../src/dashboard/api/api.ts';
import type { Api } from '../../../src/dashboard/api/route.ts';
import { openSite } from '../../../src/dashboard/site.ts';
import { type QueueOption, verbOptions } from '../../../src/queue/add/options.ts';
import type { Queue } from '../../../src/queue/api.ts';
import { QueueError } from '../../../src/queue/errors.ts';
import { type VerbName, verbNames, verbOf } from '../../../src/queue/settle/verbs.ts';
import { callAt, cronEnv } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { changeLog } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, type TestQueue } from '../../support/queue.ts';
import { repository } from '../../support/site.ts';

/** How a job of this name comes into each state, as a user would bring it there. Its number. */
const situations = {
  queued: ({ queue }, name) => queue.add(name),
  delayed: ({ queue }, name) => queue.add(name, {}, { runAt: '+1 hour' }),
  running: async ({ take }, name) => (await take(name)).id,
  'retrying, due': async ({ take, queue, clock }, name) => {
    const job = await take(name);
    await queue.retry(job);
    clock.at += 1;
    return job.id;
  },
  'retrying, delayed': async ({ take, queue }, name) => {
    const job = await take(name);
    await queue.retry(job, { delay: '1h' });
    return job.id;
  },
  'paused parent': async ({ take, queue }, name) => {
    const parent = await take(name);
    await queue.add('mail/child', {}, { parent: parent.id });
    await queue.finish(parent);
    return parent.id;
  },
  'paused child': async ({ take, queue }, name) => {
    const parent = await take('mail/parent');
    return await queue.add(name, {}, { parent: parent.id });
  },
  failed: async ({ take, queue }, name) => {
    const job = await take(name);
    await queue.fail(job);
    return job.id;
  },
  buried: async ({ queue }, name) => {
    const id = await queue.add(name);
    await queue.bury(id);
    return id;
  },
  finished: async ({ take, queue }, name) => {
    const job = await take(name);
    await queue.finish(job);
    return job.id;
  },
  cancelled: async ({ queue }, name) => {
    const id = await queue.add(name);
    await queue.cancel(id);
    return id;
  },
} as const satisfies Record<string, (test: TestQueue, name: string) => Promise<number>>;

type Situation = keyof typeof situations;

const verbs = {
  claim: (queue, id) => queue.claimJob(id),
  finish: (queue, id) => queue.finish(id),
  retry: (queue, id) => queue.retry(id),
  fail: (queue, id) => queue.fail(id),
  touch: (queue, id) => queue.touch(id),
  bury: (queue, id) => queue.bury(id),
  kick: (queue, id) => queue.kick(id),
  cancel: (queue, id) => queue.cancel(id),
  delete: (queue, id) => queue.delete(id),
  update: (queue, id) => queue.update(id, { priority: 700 }),
  requeue: (queue, id) => queue.requeue([id]),
} as const satisfies Record<string, (queue: Queue, id: number) => Promise<unknown>>;

type Verb = keyof typeof verbs;

const NO = 'refused';
const GONE = 'deleted';

/** What becomes of a job in each situation; every pair is here. */
const table: Readonly<Record<Verb, Readonly<Record<Situation, string>>>> = {
  claim: {
    ...everywhere(NO),
    queued: 'running',
    delayed: 'running',
    'retrying, due': 'running',
    'retrying, delayed': 'running',
    failed: 'running',
    buried: 'running',
  },
  finish: { ...everywhere(NO), running: 'finished' },
  retry: { ...everywhere(NO), running: 'retrying' },
  fail: { ...everywhere(NO), running: 'failed' },
  touch: { ...everywhere(NO), running: 'running' },
  bury: {
    ...everywhere(NO),
    queued: 'failed',
    delayed: 'failed',
    running: 'failed',
    'retrying, due': 'failed',
    'retrying, delayed': 'failed',
  },
  kick: { ...everywhere(NO), delayed: 'queued', 'retrying, delayed': 'queued', failed: 'queued', buried: 'queued' },
  cancel: { ...everywhere('cancelled'), running: NO, finished: NO },
  delete: { ...everywhere(GONE), running: NO, 'paused parent': NO },
  update: {
    queued: 'queued',
    delayed: 'queued',
    running: 'running',
    'retrying, due': 'retrying',
    'retrying, delayed': 'retrying',
    'paused parent': 'paused',
    'paused child': 'paused',
    failed: 'failed',
    buried: 'failed',
    finished: 'finished',
    cancelled: 'cancelled',
  },
  requeue: { ...everywhere('queued'), 'paused parent': NO, 'paused child': 'paused' },
};

function everywhere(state: string): Record<Situation, string> {
  const names = Object.keys(situations) as Situation[];
  return Object.fromEntries(names.map((name) => [name, state])) as Record<Situation, string>;
}

/** The situations that docs/queue.md calls by one name. */
const inPage: Readonly<Record<string, readonly Situation[]>> = {
  ready: ['queued', 'retrying, due'],
  delayed: ['delayed', 'retrying, delayed'],
  running: ['running'],
  'waiting parent': ['paused parent'],
  'paused child': ['paused child'],
  failed: ['failed', 'buried'],
  finished: ['finished'],
  cancelled: ['cancelled'],
};

test('the page on the queue says from which state each verb leads where', () => {
  const page = readFileSync(join(repository, 'docs/queue.md'), 'utf8');
  const lines = page.split('\n| verb | state before | state after |\n')[1]?.split('\n\n')[0] ?? '';
  const shown = [...lines.matchAll(/^\| `(\w+).*` \| ([^;|]+).* \| ([^;|]+?)(?:;.*)? \|$/gm)];
  expect(shown.map(([, verb]) => verb).sort()).toEqual(Object.keys(verbs).sort());
  for (const [, verb = '', before = '', after = ''] of shown) {
    const ofVerb = Object.entries(table[verb as Verb]).filter(([, to]) => to !== NO);
    expect(ofVerb.map(([from]) => from).sort(), `${verb} from`).toEqual(situationsIn(before.trim()));
    const ends = ofVerb.map(([from, to]) => (from === 'paused child' && verb === 'requeue' ? after : to));
    if (after !== 'the same') expect([...new Set(ends)], `${verb} to`).toEqual([after]);
  }
});

/** Of "ready, delayed", or of "all but running". */
function situationsIn(cell: string): string[] {
  const [, exceptions] = /^all(?: but (.+))?$/.exec(cell) ?? [];
  const named = (text = ''): Situation[] => text.split(', ').flatMap((name) => inPage[name] ?? []);
  const chosen = cell.startsWith('all')
    ? Object.values(inPage)
        .flat()
        .filter((name) => !named(exceptions).includes(name))
    : named(cell);
  return chosen.sort();
}

/** What each verb adds to the activity of a job that it changes. */
const told: Readonly<Record<Verb, readonly string[]>> = {
  claim: ['run-started'],
  finish: ['job-finished'],
  retry: ['job-released'],
  fail: ['job-failed'],
  // A lease that goes on is no transition.
  touch: [],
  bury: ['job-buried'],
  kick: ['job-kicked'],
  cancel: ['job-cancelled'],
  delete: ['job-deleted'],
  update: ['job-updated'],
  requeue: ['job-requeued'],
};

/** What no row tells, of how a job comes into a situation. */
const recorded = ['job-buried', 'job-cancelled'];

/** Of one that runs also the end of its run is told. */
const toldOfRun: Partial<Record<Verb, readonly string[]>> = { bury: ['job-failed'], requeue: ['job-released'] };

/** Of one that is not due, or has failed, its kick is told, too. */
const toldOfKick: Partial<Record<Verb, readonly string[]>> = { claim: ['job-kicked'] };

describe.each(Object.keys(verbs) as Verb[])('%s', (verb) => {
  test('leads from each state where the table says, or is refused and changes nothing', async () => {
    const log = await openTestQueue();
    for (const [index, [from, to]] of (Object.entries(table[verb]) as [Situation, string][]).entries()) {
      await expectChange(log, `mail/${index}`, verb, from, to);
    }
  });
});

/** How each surface applies a verb to a job. Why it is refused; null: it is not. */
const surfaces: Readonly<Record<string, (log: TestQueue, api: Api, verb: VerbName, id: number) => Promise<unknown>>> = {
  command: async ({ root, clock }, _, verb, id) => {
    const options = verb === 'update' ? ['--priority', '700'] : [];
    const place = { cwd: root, env: { ...cronEnv(root), TZ: 'UTC' } };
    const { status, stderr } = await callAt(['job', String(id), verb, ...options], place, clock.at);
    return status === 0 ? null : stderr.trim().replace(/^runner: /, '');
  },
  API: async (_, api, verb, id) => {
    const method = { update: 'PATCH', delete: 'DELETE' }[verb as string] ?? 'POST';
    const path = method === 'POST' ? `/${verb}` : '';
    const body = verb === 'update' ? '{"priority":700}' : null;
    const { status, answered } = await ask(api, method, `/api/jobs/${id}${path}`, body);
    return status === 200 ? null : answered.detail;
  },
  batch: async (_, api, verb, id) => {
    const options = verb === 'update' ? { priority: 700 } : {};
    const body = JSON.stringify({ verb, ids: [id], options });
    return (await ask(api, 'POST', '/api/jobs/batch', body)).answered.items[0].reason;
  },
};

async function ask(api: Api, method: string, path: string, body: string | null) {
  const headers = new Headers(body === null ? {} : { 'content-type': 'application/json' });
  const answer = await api.request(`http://127.0.0.1${path}`, { method, headers, body });
  return { status: answer.status, answered: JSON.parse(await answer.text()) };
}

function openApi({ root, clock }: TestQueue): Api {
  const env = { ...process.env, ...engine.environment() };
  const site = openSite({ root, env, version: '0', now: () => clock.at, distFolder: '' });
  onTestFinished(() => site.close());
  return createApi(site, { name: 'token laptop', permission: 'manage' });
}

test.each(verbNames)('%s does on the command line, in the API and in a batch what the queue does', async (verb) => {
  const log = await openTestQueue();
  const api = openApi(log);
  for (const [surface, apply] of Object.entries(surfaces)) {
    for (const [from, to] of Object.entries(table[verb]) as [Situation, string][]) {
      const what = `${verb} by ${surface}, ${from}`;
      const id = await situations[from](log, `mail/${surface}-${from.replaceAll(/\W/g, '')}`);
      const ofQueue = to === NO ? await verbs[verb](log.queue, id).catch(({ message }: Error) => message) : null;
      expect(await apply(log, api, verb, id), what).toBe(ofQueue);
      if (to !== NO) expect(log.row(id)?.state ?? GONE, what).toBe(to);
    }
  }
});

test('the help of jobs lists the verbs, each with the options that it takes', async () => {
  const { root, clock } = await openTestQueue();
  const { stdout } = await callAt(['job', '--help'], { cwd: root, env: cronEnv(root) }, clock.at);
  const shown = stdout.split('Verbs and their options:\n')[1]?.split('\n\n')[0] ?? '';
  const listed = [...shown.matchAll(/^ {2}(\w+)((?:\s+--[\w-]+)*)/gm)].map(([, verb, flags = '']) => [
    verb,
    flags.trim().split(/\s+/).filter(Boolean),
  ]);
  const flagsOf = (verb: VerbName) => {
    const { options, takesToken = false } = verbOf(verb);
    const flags = options
      .map((name): QueueOption => verbOptions[name])
      .flatMap(({ flag = '', off = [] }) => [flag, off]);
    return [...flags.flat(), ...(takesToken ? ['--token'] : [])];
  };
  expect(listed).toEqual(verbNames.map((verb) => [verb, flagsOf(verb)]));
});

test('the dashboard offers the verbs that the queue takes', async () => {
  const log = await openTestQueue();
  const api = openApi(log);
  const { answered: session } = await ask(api, 'GET', '/api/session', null);
  expect(session.buttons.map(({ verb }: { verb: string }) => verb)).toEqual(
    verbNames.filter((verb) => ['retry', 'bury', 'kick', 'cancel', 'delete', 'requeue'].includes(verb)),
  );
  for (const from of Object.keys(situations) as Situation[]) {
    const name = `mail/${from.replaceAll(/\W/g, '')}`;
    const id = await situations[from](log, name);
    const taken = verbNames.filter((verb) => table[verb][from] !== NO);
    // A cancelled job stays as it is.
    const offered = taken.filter((verb) => verb !== 'cancel' || from !== 'cancelled');
    const { answered: one } = await ask(api, 'GET', `/api/jobs/${id}`, null);
    expect(one.verbs, from).toEqual(offered);
    // A question that was asked before may get the same answer for a moment.
    const { answered: list } = await ask(api, 'GET', `/api/jobs?name=${name}`, null);
    expect(list.items, from).toMatchObject([{ id, verbs: offered }]);
  }
});

async function expectChange(log: TestQueue, name: string, verb: Verb, from: Situation, to: string): Promise<void> {
  const what = `${verb}, ${from}`;
  const id = await situations[from](log, name);
  const [before, events, { state }] = [log.dump(), log.events(id), log.row(id)];
  const done = verbs[verb](log.queue, id);
  if (to === NO) {
    const error = await done.then(() => null).catch((thrown: unknown) => thrown);
    expect(error, what).toBeInstanceOf(QueueError);
    expect(error, what).toMatchObject({ code: 'wrong-state' });
    expect((error as Error).message).toMatch(
      new RegExp(`^Job ${id} \\(${name}\\) (is ${state}, and only|has a child that) .+[^.]\\.$`),
    );
    expect(log.dump(), what).toBe(before);
    return;
  }
  await done;
  if (to === GONE) expect(log.row(id), what).toBeUndefined();
  else expectSound(log, id, to, what);
  // What its rows told goes with them.
  const kept = to === GONE ? events.filter((event) => recorded.includes(event)) : events;
  const ofRun = from === 'running' ? (toldOfRun[verb] ?? []) : [];
  const ofKick = /delayed|failed|buried/.test(from) ? (toldOfKick[verb] ?? []) : [];
  const isSame = verb === 'cancel' && from === 'cancelled';
  const expected = [...kept, ...ofKick, ...ofRun, ...(isSame ? [] : told[verb])];
  // What happens at the same instant is in no order.
  expect(log.events(id).sort(), what).toEqual(expected.sort());
}

/** Whatever its state, a job's columns and its runs agree with it. */
function expectSound({ row, runs }: TestQueue, id: number, state: string, what: string): void {
  const job = row(id);
  const isRunning = state === 'running';
  const found = {
    state: job.state,
    hasEnd: job.finished_at !== null,
    hasToken: job.claim_token !== null,
    hasLease: job.lease_expires_at !== null,
    openRuns: runs(id).filter(({ outcome }) => outcome === 'running').length,
  };
  expect(found, what).toEqual({
    state,
    hasEnd: ['finished', 'failed', 'cancelled'].includes(state),
    hasToken: isRunning,
    hasLease: isRunning,
    openRuns: isRunning ? 1 : 0,
  });
}

test.each(Object.keys(verbs).filter((verb) => verb !== 'requeue') as Verb[])(
  '%s says that there is no job of that number, nor one of the queue',
  async (verb) => {
    const log = await openTestQueue();
    changeLog(log.root, `insert into jobs (name, tier, ready) values ('hourly/a', 'hourly', null)`);
    const before = log.dump();
    for (const id of [1, 99]) {
      await expect(verbs[verb](log.queue, id)).rejects.toMatchObject({
        code: 'no-such-job',
        message: `There is no job ${id} in the queue; \`npx folder-runner jobs\` lists all jobs.`,
      });
    }
    for (const id of [0, -1, 1.5, Number.NaN, '1', null, undefined, 2 ** 53] as number[]) {
      await expect(verbs[verb](log.queue, id)).rejects.toMatchObject({ code: 'invalid' });
    }
    expect(log.dump()).toBe(before);
  },
);

test.each(['finish', 'retry', 'fail', 'touch', 'bury', 'delete', 'update'] as const)(
  '%s with a token that holds no more changes nothing',
  async (verb) => {
    const log = await openTestQueue();
    const { queue, clock, dump, take } = log;
    const late = await take('mail/a');
    clock.at += HOUR_MS;
    const again = await queue.claim('mail/a');
    expect(again?.id).toBe(late.id);
    const act = {
      finish: () => queue.finish(late, { result: 'late' }),
      retry: () => queue.retry(late),
      fail: () => queue.fail(late),
      touch: () => queue.touch(late),
      bury: () => queue.bury(late),
      delete: () => queue.delete(late),
      update: () => queue.update(late, { data: 'late' }),
    }[verb];
    const before = dump();
    await expect(act()).rejects.toMatchObject({
      code: 'stale-claim',
      message: `The claim of job ${late.id} (mail/a) has expired: another worker has claimed it; nothing was changed.`,
    });
    expect(dump()).toBe(before);
    await queue.finish({ id: late.id, token: again?.token ?? '' });
    const ended = dump();
    await expect(act()).rejects.toMatchObject({
      code: 'stale-claim',
      message: expect.stringContaining('the job is finished'),
    });
    expect(dump()).toBe(ended);
  },
);

test.each([
  ['finish', 'running'],
  ['retry', 'running'],
  ['fail', 'running'],
  ['bury', 'running'],
  ['bury', 'queued'],
  ['kick', 'failed'],
  ['cancel', 'queued'],
  ['delete', 'finished'],
  ['update', 'queued'],
  ['requeue', 'running'],
] as const)('%s changes nothing of what is %s if it cannot be told', async (verb, from) => {
  const log = await openTestQueue();
  const { root, queue } = log;
  const id = await situations[from](log, 'mail/a');
  const before = [log.row(id), log.runs(id)];
  const makeRoom = ['update on runs', 'insert on events'].map((what) => engine.refuse(root, what));
  await expect(verbs[verb](queue, id)).rejects.toThrow(/no room/);
  for (const make of makeRoom) make();
  expect([log.row(id), log.runs(id)]).toEqual(before);
  await verbs[verb](queue, id);
  expect([log.row(id), log.runs(id)]).not.toEqual(before);
});
