import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type StateFolder, stateFolderAt } from '../../src/place/state-folder.ts';
import { enqueueScripts } from '../../src/queue/add/scripts.ts';
import { claimJob } from '../../src/queue/claim/script-claim.ts';
import { finishJob } from '../../src/queue/settle/script-run.ts';
import { type SpoolTaking, takeInSpool } from '../../src/recovery/replay-spool.ts';
import type { SpoolEntry, SpoolRecord } from '../../src/spool/format.ts';
import { createSpoolWriter } from '../../src/spool/write.ts';

import { identifyDeadProcess } from '../support/dead-process.ts';
import { makeFinishedRun } from '../support/finished-run.ts';
import { queryLog } from '../support/open-log.ts';
import { makeScript } from '../support/plain-script.ts';
import {
  makeSpooledEnd,
  makeSpooledRun,
  makeSpoolHeader,
  makeSpoolingWorker,
  makeSpoolRun,
  SPOOL_AT,
  toLines,
} from '../support/spool.ts';
import { startNode } from '../support/start-command.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

const child = new URL('take-in-spool.child.ts', import.meta.url).pathname;
const AT = SPOOL_AT + 60_000;
const finish = { type: 'finished', finishedAt: SPOOL_AT + 100, reason: null } as const;

/** A root with an empty log, and what takes its spool in. */
async function makeLog() {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const notEnded = async () => {
    throw new Error('No run was lost.');
  };
  const takeIn = (taking: Partial<SpoolTaking> = {}, folders = [log.state]) =>
    takeInSpool(log.db, folders, {
      ...{ state: log.state, workerId: null, at: AT, endLostRun: notEnded },
      ...taking,
    });
  return { ...log, root, takeIn };
}

function writeSpool(state: StateFolder, content: string, name = '100-1-a.jsonl'): void {
  writeFileSync(join(state.spool, name), content, { mode: 0o600 });
}

const listSpool = ({ spool }: StateFolder): string[] => readdirSync(spool);

test('what a worker recorded without the log is in it afterwards, and its file is gone', async () => {
  const { root, state, takeIn } = await makeLog();
  const worker = makeSpoolingWorker();
  const writer = createSpoolWriter(state, worker);
  const reason = 'exit code 3';
  const failed = makeFinishedRun({ outcome: 'failed', finished_at: SPOOL_AT + 25, reason });
  writer.append({ type: 'begun', ...makeSpoolRun('run-0001') });
  writer.append(makeSpooledRun('run-0001'));
  writer.append(makeSpooledRun('run-0002', { script: 'hourly/b', run: failed }));
  writer.close({ finishedAt: SPOOL_AT + 30, reason: 'told to stop' });

  expect(await takeIn()).toEqual({ runs: 2, ended: [], alive: [], notes: [] });

  expect(listSpool(state)).toEqual([]);
  expect(queryLog(root, 'select * from workers')).toEqual([
    {
      id: 1,
      kind: 'tier',
      tier: 'hourly',
      state: 'finished',
      host: worker.identity.host,
      boot_id: worker.identity.bootId,
      pid: process.pid,
      pid_start_ticks: worker.identity.startTicks,
      scheduled_for: SPOOL_AT,
      started_at: SPOOL_AT,
      finished_at: SPOOL_AT + 30,
      reason: 'told to stop; it ran without the log, because activity.db is on a full disk',
      called_by: 'schedule',
      runner_version: '0.1.0',
      node_version: process.version,
    },
  ]);
  const jobs =
    'select name, state, attempts, created_at, finished_at, reason from jobs order by id';
  expect(queryLog(root, jobs)).toEqual([
    {
      ...{ name: 'hourly/a', state: 'finished', attempts: 1, created_at: SPOOL_AT + 10 },
      ...{ finished_at: SPOOL_AT + 20, reason: null },
    },
    {
      ...{ name: 'hourly/b', state: 'failed', attempts: 1, created_at: SPOOL_AT + 10 },
      ...{ finished_at: SPOOL_AT + 25, reason },
    },
  ]);
  expect(queryLog(root, 'select * from runs order by id')).toEqual([
    expect.objectContaining({
      ...{ job_id: 1, worker_id: 1, script: 'hourly/a', tier: 'hourly', attempt: 1 },
      ...{ scheduled_for: SPOOL_AT, started_at: SPOOL_AT + 10, timeout_ms: 60_000 },
      ...{ content_hash: 'ab'.repeat(32), spool_id: 'run-0001', output: 'hi\n' },
      ...{ outcome: 'succeeded', duration_ms: 12.5, pid: null },
    }),
    expect.objectContaining({ job_id: 2, spool_id: 'run-0002', outcome: 'failed', reason }),
  ]);
  expect(queryLog(root, 'select at, worker_id, event, detail from activity')).toEqual([
    {
      ...{ at: AT, worker_id: null, event: 'spool-taken-in' },
      detail: '2 runs that were recorded without the log, because activity.db is on a full disk',
    },
  ]);
});

test('taken in twice, it is there once', async () => {
  const { root, state, takeIn } = await makeLog();
  const content = toLines(makeSpoolHeader(), makeSpooledRun('run-0001'), finish);
  for (const runs of [1, 0, 0]) {
    writeSpool(state, content);
    expect(await takeIn()).toMatchObject({ runs, notes: [] });
  }
  expect(countRows(root)).toEqual({ workers: 1, jobs: 1, runs: 1, activity: 1 });
});

test('a record that was written twice is taken in once', async () => {
  const { root, state, takeIn } = await makeLog();
  const run = makeSpooledRun('run-0001');
  writeSpool(state, toLines(makeSpoolHeader(), run, run, finish));
  expect(await takeIn()).toMatchObject({ runs: 1 });
  expect(countRows(root)).toEqual({ workers: 1, jobs: 1, runs: 1, activity: 1 });
});

function countRows(root: string): unknown {
  return queryLog(
    root,
    `select (select count(*) from workers) as workers, (select count(*) from jobs) as jobs,
      (select count(*) from runs) as runs, (select count(*) from activity) as activity`,
  )[0];
}

test('a pass that ran nothing is known all the same', async () => {
  const { root, state, takeIn } = await makeLog();
  writeSpool(state, toLines(makeSpoolHeader(), finish));
  expect(await takeIn()).toMatchObject({ runs: 0, notes: [] });
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
  expect(queryLog(root, 'select detail from activity')).toEqual([
    {
      detail: 'a pass that was recorded without the log, because activity.db is on a full disk',
    },
  ]);
});

test('a worker that died has crashed; one whose last line found no room has not', async () => {
  const { root, state, takeIn } = await makeLog();
  const run = makeSpooledRun('run-0001');
  writeSpool(state, toLines(makeSpoolHeader(), run), '100-1-a.part');
  writeSpool(state, toLines(makeSpoolHeader({ tier: 'daily' })), '200-1-a.jsonl');
  await takeIn();
  const because = 'it ran without the log, because activity.db is on a full disk';
  expect(queryLog(root, 'select tier, state, finished_at, reason from workers')).toEqual([
    {
      ...{ tier: 'hourly', state: 'crashed', finished_at: AT },
      reason: `its process has gone without finishing; ${because}`,
    },
    {
      ...{ tier: 'daily', state: 'finished', finished_at: SPOOL_AT },
      reason: `its end could not be written; ${because}`,
    },
  ]);
});

test('a worker that is still at work keeps its file', async () => {
  const { root, state, takeIn } = await makeLog();
  createSpoolWriter(state, makeSpoolingWorker()).append(makeSpooledRun('run-0001'));
  expect(await takeIn()).toEqual({ runs: 0, ended: [], alive: [], notes: [] });
  expect(listSpool(state)).toHaveLength(1);
  expect(countRows(root)).toEqual({ workers: 0, jobs: 0, runs: 0, activity: 0 });
});

test('a run whose runner died ends by what is known of it, once', async () => {
  const { root, state, takeIn } = await makeLog();
  const run = makeSpoolRun('run-0001');
  const content = toLines(makeSpoolHeader(), { type: 'begun', ...run });
  const crashed = makeFinishedRun({ outcome: 'crashed', finished_at: AT, reason: 'it died' });
  writeSpool(state, content, '100-1-a.part');
  const { ended, runs } = await takeIn({ endLostRun: async () => crashed });
  expect(runs).toBe(1);
  expect(ended).toMatchObject([{ run, worker: { tier: 'hourly' }, state: { path: state.path } }]);
  writeSpool(state, content, '100-1-a.part');
  // Asked again, it would throw.
  expect(await takeIn()).toEqual({ runs: 0, ended: [], alive: [], notes: [] });
  const rows = 'select outcome, spool_id, state from runs join jobs on jobs.id = job_id';
  expect(queryLog(root, rows)).toEqual([
    { outcome: 'crashed', spool_id: 'run-0001', state: 'failed' },
  ]);
});

test('a run that outlived its runner keeps its file until it has ended; the others are taken in', async () => {
  const { root, state, takeIn } = await makeLog();
  const content = toLines(makeSpoolHeader(), makeSpooledRun('run-0001'), {
    type: 'begun',
    ...makeSpoolRun('run-0002', 'hourly/b'),
  });
  writeSpool(state, content, '100-1-a.part');
  const { alive } = await takeIn({ endLostRun: async () => null });
  expect(alive).toMatchObject([{ run: { script: 'hourly/b' } }]);
  expect(listSpool(state)).toEqual(['100-1-a.part']);
  expect(await takeIn({ endLostRun: async () => makeFinishedRun() })).toMatchObject({ runs: 1 });
  expect(listSpool(state)).toEqual([]);
  expect(queryLog(root, 'select spool_id from runs order by id')).toEqual([
    { spool_id: 'run-0001' },
    { spool_id: 'run-0002' },
  ]);
});

/** A run that began in the log, whose worker then lost it. */
async function makeBegunInLog() {
  const log = await makeLog();
  const identity = identifyDeadProcess();
  const workerId = await log.addPass('hourly', SPOOL_AT, { state: 'running', pid: identity.pid });
  const script = makeScript('hourly/a', { retries: 1 });
  const at = SPOOL_AT + 10;
  const [job] = await enqueueScripts(log.db, [script], { workerId, scheduledFor: SPOOL_AT, at });
  const claim = await claimJob(log.db, job as never, { workerId, at, timeoutMs: 60_000 });
  if (claim === null) throw new Error('The job was not claimed.');
  const [row] = queryLog<{ boot_id: string; pid_start_ticks: number | null }>(
    log.root,
    'select boot_id, pid_start_ticks from workers',
  );
  const header = makeSpoolHeader({
    identity: { ...identity, startTicks: row?.pid_start_ticks ?? null },
  });
  return { ...log, workerId, claim, header };
}

test('a run that began in the log ends there, and so does its worker', async () => {
  const { root, state, takeIn, claim, header } = await makeBegunInLog();
  const content = toLines(header, makeSpooledEnd(claim), finish);
  for (let times = 0; times < 2; times += 1) {
    writeSpool(state, content);
    expect(await takeIn()).toEqual({ runs: 0, ended: [], alive: [], notes: [] });
  }
  expect(queryLog(root, 'select id, outcome, finished_at, spool_id from runs')).toEqual([
    { id: claim.runId, outcome: 'succeeded', finished_at: SPOOL_AT + 20, spool_id: null },
  ]);
  expect(queryLog(root, 'select state, claim_token from jobs')).toEqual([
    { state: 'finished', claim_token: null },
  ]);
  expect(queryLog(root, 'select state, finished_at, reason from workers')).toEqual([
    {
      ...{ state: 'finished', finished_at: finish.finishedAt },
      reason: 'it ran without the log, because activity.db is on a full disk',
    },
  ]);
  expect(
    queryLog(
      root,
      `select event, detail from activity where event not like 'job-queued' order by id`,
    ),
  ).toEqual([
    { event: 'job-running', detail: null },
    { event: 'job-finished', detail: null },
    {
      event: 'spool-taken-in',
      detail: '1 run that was recorded without the log, because activity.db is on a full disk',
    },
  ]);
});

test('a failed end is tried again, as its job says', async () => {
  const { root, state, takeIn, claim, header } = await makeBegunInLog();
  const end = makeSpooledEnd(claim);
  const policy = { ...end.policy, maxAttempts: 2 };
  const run = makeFinishedRun({ outcome: 'failed', finished_at: SPOOL_AT + 20 });
  writeSpool(state, toLines(header, { ...end, policy, run }, finish));
  await takeIn();
  expect(queryLog(root, 'select state, run_at from jobs')).toEqual([
    { state: 'retrying', run_at: AT + 60_000 },
  ]);
});

/** A job that waited to be run when the log was lost, and was then run without it. */
async function makeQueuedInLog() {
  const log = await makeLog();
  const workerId = await log.addPass('hourly', SPOOL_AT, { state: 'crashed' });
  const enqueueing = { workerId, scheduledFor: SPOOL_AT, at: SPOOL_AT + 1 };
  const [job] = await enqueueScripts(log.db, [makeScript('hourly/a')], enqueueing);
  const run = { ...makeSpooledRun('run-0001'), jobId: job?.id ?? null };
  return { ...log, run };
}

const jobs = 'select id, state, attempts, finished_at from jobs order by id';

test('a job that waited in the log when that was lost is not run again', async () => {
  const { root, state, takeIn, run } = await makeQueuedInLog();
  const { run: _, ...begin } = run;
  const content = toLines(makeSpoolHeader(), { ...begin, type: 'begun' }, run, finish);
  for (const runs of [1, 0]) {
    writeSpool(state, content);
    expect(await takeIn()).toMatchObject({ runs, notes: [] });
  }
  expect(queryLog(root, jobs)).toEqual([
    { id: 1, state: 'finished', attempts: 1, finished_at: SPOOL_AT + 20 },
  ]);
  expect(queryLog(root, 'select job_id, attempt, outcome from runs')).toEqual([
    { job_id: 1, attempt: 1, outcome: 'succeeded' },
  ]);
  expect(queryLog(root, `select job_id from activity where event = 'job-finished'`)).toEqual([
    { job_id: 1 },
  ]);
});

test('a job that failed in it is tried again, if its tries are not used up', async () => {
  const { root, db, state, takeIn, run } = await makeQueuedInLog();
  const tried = { state: 'retrying', attempts: 1, max_attempts: 3 } as const;
  await db.updateTable('jobs').set(tried).execute();
  const failed = makeFinishedRun({ outcome: 'failed', finished_at: SPOOL_AT + 20 });
  writeSpool(state, toLines(makeSpoolHeader(), { ...run, run: failed }, finish));
  await takeIn();
  expect(queryLog(root, 'select state, attempts, run_at from jobs')).toEqual([
    { state: 'retrying', attempts: 2, run_at: AT + 60_000 },
  ]);
  expect(queryLog(root, 'select attempt from runs')).toEqual([{ attempt: 2 }]);
});

test.each([
  ['another worker has run meanwhile', { state: 'finished', finished_at: AT }],
  ['is of another script', { name: 'hourly/b' }],
  ['a log made anew has by this number', { created_at: SPOOL_AT + 11 }],
] as const)('a job that %s is left alone', async (_what, columns) => {
  const { root, db, state, takeIn, run } = await makeQueuedInLog();
  await db.updateTable('jobs').set(columns).execute();
  const [before] = queryLog(root, jobs);
  writeSpool(state, toLines(makeSpoolHeader(), run, finish));
  await takeIn();
  expect(queryLog(root, jobs)).toEqual([
    before,
    { id: 2, state: 'finished', attempts: 1, finished_at: SPOOL_AT + 20 },
  ]);
});

test('of a job that somebody took over meanwhile, nothing is changed', async () => {
  const { root, db, state, takeIn, claim, header, workerId } = await makeBegunInLog();
  const { policy } = makeSpooledEnd(claim);
  const run = makeFinishedRun({ outcome: 'crashed', reason: 'its runner died' });
  await finishJob(db, { claim, policy, run, isRetryable: true }, { workerId });
  const rows = 'select jobs.*, runs.* from jobs, runs';
  const before = queryLog(root, rows);
  writeSpool(state, toLines(header, makeSpooledEnd(claim), finish));
  expect(await takeIn()).toMatchObject({ runs: 0, notes: [] });
  expect(queryLog(root, rows)).toEqual(before);
  expect(listSpool(state)).toEqual([]);
});

test('the end of a run in a log that is gone ends no other run, and is not lost', async () => {
  const { root, state, takeIn, claim, header } = await makeBegunInLog();
  const foreign = { ...claim, startedAt: claim.startedAt - 1 };
  writeSpool(state, toLines(header, makeSpooledEnd(foreign), finish));
  expect(await takeIn()).toMatchObject({ runs: 1, notes: [] });
  expect(queryLog(root, 'select outcome, spool_id from runs order by id')).toEqual([
    { outcome: 'running', spool_id: null },
    { outcome: 'succeeded', spool_id: 'end-of-claim' },
  ]);
});

test('a last line that breaks off is dropped, with a note', async () => {
  const { root, state, takeIn } = await makeLog();
  const content = toLines(makeSpoolHeader(), makeSpooledRun('run-0001'));
  writeSpool(state, `${content}{"type":"run","spoo`, '100-1-a.part');
  expect((await takeIn()).notes).toEqual([
    `The last line of ${join(state.spool, '100-1-a.part')} is incomplete; it was never acknowledged.`,
  ]);
  expect(queryLog(root, 'select spool_id from runs')).toEqual([{ spool_id: 'run-0001' }]);
  expect(listSpool(state)).toEqual([]);
});

test('a file whose worker died before it had said anything goes', async () => {
  const { root, state, takeIn } = await makeLog();
  writeSpool(state, '', '100-1-a.part');
  writeSpool(state, '{"type":"wor', '200-1-a.part');
  expect(await takeIn({ at: Date.now() })).toMatchObject({ runs: 0, notes: [] });
  expect(listSpool(state)).toHaveLength(2);
  expect(await takeIn({ at: Date.now() + 120_000 })).toMatchObject({ runs: 0 });
  expect(listSpool(state)).toEqual([]);
  expect(countRows(root)).toEqual({ workers: 0, jobs: 0, runs: 0, activity: 0 });
});

test('what is not understood is set aside, and what is comes into the log', async () => {
  const { root, state, takeIn } = await makeLog();
  const run = makeSpooledRun('run-0002');
  const content = `${toLines(makeSpoolHeader(), makeSpooledRun('run-0001'))}gibberish\n${toLines(run)}`;
  writeSpool(state, content);
  const path = join(state.spool, '100-1-a.jsonl');
  expect(await takeIn()).toMatchObject({
    runs: 2,
    notes: [
      `${path} was renamed to 100-1-a.jsonl.unreadable: line 3 is no record: it is no JSON. ` +
        'Its readable part is in the log; look at the file, then remove it.',
    ],
  });
  expect(readFileSync(`${path}.unreadable`, 'utf8')).toBe(content);
  expect(await takeIn()).toMatchObject({ runs: 0, notes: [] });
  expect(countRows(root)).toMatchObject({ runs: 2 });
});

test('a file of a newer runner is set aside whole', async () => {
  const { root, state, takeIn } = await makeLog();
  const newer = { ...makeSpoolHeader(), version: 2 };
  writeSpool(state, toLines(newer, makeSpooledRun('run-0001')));
  const { notes } = await takeIn();
  expect(notes).toEqual([
    expect.stringMatching(
      /version is 2, not 1, .+\. Nothing of it is in the log; look at the file/,
    ),
  ]);
  expect(listSpool(state)).toEqual(['100-1-a.jsonl.unreadable']);
  expect(countRows(root)).toEqual({ workers: 0, jobs: 0, runs: 0, activity: 0 });
});

test('foreign files are left alone', async () => {
  const { state, takeIn } = await makeLog();
  writeSpool(state, 'mine', 'notes.jsonl');
  mkdirSync(join(state.spool, 'folder.part'));
  expect(await takeIn()).toEqual({ runs: 0, ended: [], alive: [], notes: [] });
  expect(listSpool(state).toSorted()).toEqual(['folder.part', 'notes.jsonl']);
});

test('what the log refuses stays where it is, and the next file is taken in', async () => {
  const { root, state, db, takeIn } = await makeLog();
  writeSpool(state, toLines(makeSpoolHeader(), makeSpooledRun('run-0001')), '100-1-a.jsonl');
  writeSpool(state, toLines(makeSpoolHeader(), finish), '200-1-a.jsonl');
  await db.schema.alterTable('runs').renameColumn('spool_id', 'other_id').execute();
  const { runs, notes } = await takeIn();
  expect(runs).toBe(0);
  expect(notes).toEqual([expect.stringMatching(/100-1-a\.jsonl stays where it is: .+spool_id/)]);
  expect(listSpool(state)).toEqual(['100-1-a.jsonl']);
  expect(countRows(root)).toMatchObject({ workers: 1, jobs: 0, runs: 0 });
});

test('more runs than one step records are recorded, and told of, once each', async () => {
  const { root, state, takeIn } = await makeLog();
  const runs = Array.from({ length: 450 }, (_, number) => makeSpooledRun(`run-${number}-of-450`));
  writeSpool(state, toLines(makeSpoolHeader(), ...runs, finish));
  expect(await takeIn()).toMatchObject({ runs: 450, notes: [] });
  expect(countRows(root)).toEqual({ workers: 1, jobs: 450, runs: 450, activity: 3 });
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
});

test.each([
  ['the same file system', tmpdir(), true],
  ['another file system', '/dev/shm', false],
])('an output file comes along from a folder on %s', async (_where, parent, isSame) => {
  const { root, state, takeIn } = await makeLog();
  const fallback = stateFolderAt(join(makeTemporaryFolder(parent), 'fallback'));
  expect(statSync(parent).dev === statSync(root).dev).toBe(isSame);
  for (const path of [fallback.path, fallback.spool, fallback.output]) {
    mkdirSync(path, { mode: 0o700 });
  }
  writeFileSync(join(fallback.output, 'run-0001.log.gz'), 'compressed', { mode: 0o600 });
  const files = { output_file: 'run-0001.log.gz', output_file_bytes: 10, output_bytes: 99_999 };
  const run = (spoolId: string, fields: object) =>
    makeSpooledRun(spoolId, { run: makeFinishedRun({ finished_at: AT, ...fields }) });
  writeSpool(
    fallback,
    toLines(
      makeSpoolHeader(),
      run('run-0001', files),
      run('run-0002', { ...files, output_file: 'run-0002.log.gz' }),
      finish,
    ),
  );
  expect(await takeIn({}, [state, fallback])).toMatchObject({ runs: 2, notes: [] });
  expect(readFileSync(join(state.output, 'run-0001.log.gz'), 'utf8')).toBe('compressed');
  expect([readdirSync(fallback.output), readdirSync(fallback.spool)]).toEqual([[], []]);
  const columns = 'output_file, output_file_bytes, output_dropped_bytes';
  expect(queryLog(root, `select ${columns} from runs order by id`)).toEqual([
    { output_file: 'run-0001.log.gz', output_file_bytes: 10, output_dropped_bytes: 0 },
    { output_file: null, output_file_bytes: null, output_dropped_bytes: 99_996 },
  ]);
});

test('a folder that others have access to is not looked at', async () => {
  const { state, takeIn } = await makeLog();
  const fallback = stateFolderAt(join(makeTemporaryFolder(tmpdir()), 'fallback'));
  mkdirSync(fallback.spool, { recursive: true, mode: 0o755 });
  writeSpool(fallback, toLines(makeSpoolHeader(), makeSpooledRun('run-0001'), finish));
  const { runs, notes } = await takeIn({}, [state, fallback]);
  expect(runs).toBe(0);
  expect(notes).toEqual([
    `${fallback.spool} could not be read: others have access to it (mode 0755).`,
  ]);
  expect(existsSync(join(fallback.spool, '100-1-a.jsonl'))).toBe(true);
});

function makeTemporaryFolder(parent: string): string {
  const folder = mkdtempSync(join(parent, 'spool-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** All kinds of lines, and who wrote them. */
async function makeMixedSpool() {
  const log = await makeBegunInLog();
  const entries: SpoolEntry[] = [
    { type: 'begun', ...makeSpoolRun('run-0001') },
    makeSpooledRun('run-0001'),
    makeSpooledEnd(log.claim),
    makeSpooledEnd({ ...log.claim, startedAt: 1 }, { spoolId: 'run-0002' }),
    makeSpooledRun('run-0003'),
    { type: 'begun', ...makeSpoolRun('run-0004') },
  ];
  const records: SpoolRecord[] = [log.header, ...entries, finish];
  writeSpool(log.state, toLines(...records));
  return log;
}

/** That nothing is lost, nothing is there twice, and nothing is told twice. */
function expectTakenInOnce(root: string, state: StateFolder, tellers = 1): void {
  expect(listSpool(state)).toEqual([]);
  expect(countRows(root)).toMatchObject({ workers: 1, jobs: 5, runs: 5 });
  expect(queryLog(root, 'select spool_id, outcome from runs order by id')).toEqual([
    { spool_id: null, outcome: 'succeeded' },
    { spool_id: 'run-0001', outcome: 'succeeded' },
    { spool_id: 'run-0002', outcome: 'succeeded' },
    { spool_id: 'run-0003', outcome: 'succeeded' },
    { spool_id: 'run-0004', outcome: 'crashed' },
  ]);
  expect(queryLog(root, 'select count(*) as jobs from jobs where finished_at is null')).toEqual([
    { jobs: 0 },
  ]);
  const times = (event: string) =>
    queryLog(root, 'select id from activity where event = ?', event).length;
  expect(times('job-finished')).toBe(1);
  // Of two in the same moment each may take in a part, and tells of that.
  expect(times('spool-taken-in')).toBeGreaterThanOrEqual(1);
  expect(times('spool-taken-in')).toBeLessThanOrEqual(tellers);
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
}

test('killed before any of its queries, it is taken in exactly once', {
  timeout: 180_000,
}, async () => {
  const { root, state } = await makeMixedSpool();
  for (let query = 1; ; query += 1) {
    const { status, stdout, stderr } = await startNode([child, root, String(query)]).ended;
    expect(stderr).toBe('');
    if (status === 0) {
      expect(JSON.parse(stdout).queries).toBeGreaterThan(0);
      expect(query).toBeGreaterThan(15);
      break;
    }
  }
  expectTakenInOnce(root, state);
});

test('killed between the commit and the end of the file, it is taken in exactly once', async () => {
  const { root, state } = await makeMixedSpool();
  for (let times = 0; times < 2; times += 1) {
    expect((await startNode([child, root, 'unlink']).ended).status).toBe(null);
    expect(listSpool(state)).toEqual(['100-1-a.jsonl']);
  }
  expect((await startNode([child, root]).ended).status).toBe(0);
  expectTakenInOnce(root, state);
});

test('two that take in the same spool in the same moment', async () => {
  const { root, state } = await makeMixedSpool();
  const takers = [1, 2].map(() => startNode([child, root, 'meet:2']));
  const runs: number[] = [];
  for (const { ended } of takers) {
    const { status, stdout, stderr } = await ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    runs.push(JSON.parse(stdout).runs);
  }
  expect(runs.toSorted()).toEqual([0, 4]);
  expectTakenInOnce(root, state, 2);
});

test('a large spool, killed again and again, is taken in exactly once', async () => {
  const { root, state } = await makeLog();
  const runs = Array.from({ length: 450 }, (_, number) => makeSpooledRun(`run-${number}-of-450`));
  writeSpool(state, toLines(makeSpoolHeader(), ...runs, finish));
  // In the first step, twice; in the second; in the third, twice.
  for (const query of [100, 300, 450, 430, 50]) {
    expect((await startNode([child, root, String(query)]).ended).status).toBe(null);
  }
  expect(countRows(root)).toMatchObject({ runs: 400 });
  expect((await startNode([child, root]).ended).status).toBe(0);
  expect(countRows(root)).toEqual({ workers: 1, jobs: 450, runs: 450, activity: 3 });
  expect(queryLog(root, 'select count(distinct spool_id) as runs from runs')).toEqual([
    { runs: 450 },
  ]);
  expect(listSpool(state)).toEqual([]);
});
