import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { settleRuns } from '../../../src/queue/settle/settle.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import type { SpoolEntry, SpooledEnd, SpoolRecord } from '../../../src/store/spool/read.ts';
import { type StateFolder, stateFolderAt } from '../../../src/system/place/state-folder.ts';
import { SpoolWriter } from '../../../src/worker/loop/spool-recorder.ts';
import { replaySpool, type SpoolReplay } from '../../../src/worker/recovery/replay-spool.ts';
import { readAnswers, startNode } from '../../support/command.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import {
  makeEndOfClaim,
  makeSpooledEnd,
  makeSpooledRun,
  makeSpoolHeader,
  makeSpoolingWorker,
  SPOOL_AT,
  toLines,
} from '../../support/faults/spool.ts';
import { changeLog, makeFinishedRun, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';

const child = new URL('replay-spool.child.ts', import.meta.url).pathname;
const AT = SPOOL_AT + 60_000;
const finish = { type: 'finished', finishedAt: SPOOL_AT + 100, reason: null } as const;

/** A root with an empty log, and what replays its spool. */
async function makeLog() {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const notEnded = async () => {
    throw new Error('No run was lost.');
  };
  const replay = (replaying: Partial<SpoolReplay> = {}, folders = [log.state]) =>
    replaySpool(log.store, folders, {
      ...{ state: log.state, workerId: null, at: AT, missedCap: 0, endLostRun: notEnded },
      ...replaying,
    });
  return { ...log, root, replay };
}

const toLost = (end: FinishedRun) => ({ end, result: null, decision: null });

function writeSpool(state: StateFolder, content: string, name = '100-1-a.jsonl'): void {
  writeFileSync(join(state.spool, name), content, { mode: 0o600 });
}

const listSpool = ({ spool }: StateFolder): string[] => readdirSync(spool);

test('what a worker recorded without the log is in it afterwards, and its file is gone', async () => {
  const { root, state, replay } = await makeLog();
  const worker = makeSpoolingWorker();
  const writer = new SpoolWriter(state, worker);
  const reason = 'exit code 3';
  const failed = makeFinishedRun({ outcome: 'failed', finished_at: SPOOL_AT + 25, reason });
  writer.append({ type: 'begun', ...makeSpooledRun('run-0001') });
  writer.append(makeSpooledEnd('run-0001'));
  writer.append(makeSpooledEnd('run-0002', { script: 'hourly/b', end: failed }));
  writer.close({ finishedAt: SPOOL_AT + 30, reason: 'told to stop' });

  expect(await replay()).toEqual({ runs: 2, ended: [], alive: [], notes: [] });

  expect(listSpool(state)).toEqual([]);
  expect(queryLog(root, 'select * from workers')).toMatchObject([
    {
      ...{ id: 1, kind: 'tier', tier: 'hourly', state: 'finished', triggered_by: 'cron' },
      ...{ host: worker.host, boot_id: worker.bootId, pid: process.pid, skip_code: null },
      ...{ pid_start_ticks: worker.startTicks, scheduled_for: SPOOL_AT, started_at: SPOOL_AT },
      finished_at: SPOOL_AT + 30,
      reason: 'told to stop; it ran without the log, because activity.db is on a full disk',
      ...{ runner_version: '0.1.0', node_version: process.version },
    },
  ]);
  const jobs = 'select name, state, attempts, created_at, finished_at, reason from jobs order by id';
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
      ...{ scheduled_for: SPOOL_AT, started_at: SPOOL_AT + 10, key: 'run-0001' },
      ...{ content_hash: 'ab'.repeat(32), spool_id: 'run-0001', output: 'hi\n' },
      ...{ outcome: 'succeeded', duration_us: 12_500, pid: null },
    }),
    expect.objectContaining({ job_id: 2, spool_id: 'run-0002', outcome: 'failed', reason }),
  ]);
  expect(queryLog(root, 'select at, worker_id, event, detail from events')).toEqual([
    {
      ...{ at: AT, worker_id: null, event: 'spool-replayed' },
      detail: '2 runs that were recorded without the log, because activity.db is on a full disk',
    },
  ]);
});

test('replayed twice, it is there once', async () => {
  const { root, state, replay } = await makeLog();
  const content = toLines(makeSpoolHeader(), makeSpooledEnd('run-0001'), finish);
  for (const runs of [1, 0, 0]) {
    writeSpool(state, content);
    expect(await replay()).toMatchObject({ runs, notes: [] });
  }
  expect(countRows(root)).toEqual({ workers: 1, jobs: 1, runs: 1, events: 1 });
});

test('a record that was written twice is replayed once', async () => {
  const { root, state, replay } = await makeLog();
  const run = makeSpooledEnd('run-0001');
  writeSpool(state, toLines(makeSpoolHeader(), run, run, finish));
  expect(await replay()).toMatchObject({ runs: 1 });
  expect(countRows(root)).toEqual({ workers: 1, jobs: 1, runs: 1, events: 1 });
});

function countRows(root: string): unknown {
  return queryLog(
    root,
    `select (select count(*) from workers) as workers, (select count(*) from jobs) as jobs,
      (select count(*) from runs) as runs, (select count(*) from events) as events`,
  )[0];
}

test('a pass that ran nothing is known all the same', async () => {
  const { root, state, replay } = await makeLog();
  writeSpool(state, toLines(makeSpoolHeader(), finish));
  expect(await replay()).toMatchObject({ runs: 0, notes: [] });
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
  expect(queryLog(root, 'select detail from events')).toEqual([
    { detail: 'a pass that was recorded without the log, because activity.db is on a full disk' },
  ]);
});

test('a worker that died has crashed; one whose last line found no room has not', async () => {
  const { root, state, replay } = await makeLog();
  const run = makeSpooledEnd('run-0001');
  writeSpool(state, toLines(makeSpoolHeader(), run), '100-1-a.part');
  writeSpool(state, toLines(makeSpoolHeader({ tier: 'daily' })), '200-1-a.jsonl');
  await replay();
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
  const { root, state, replay } = await makeLog();
  new SpoolWriter(state, makeSpoolingWorker()).append(makeSpooledEnd('run-0001'));
  expect(await replay()).toEqual({ runs: 0, ended: [], alive: [], notes: [] });
  expect(listSpool(state)).toHaveLength(1);
  expect(countRows(root)).toEqual({ workers: 0, jobs: 0, runs: 0, events: 0 });
});

test('a run whose runner died ends by what is known of it, once', async () => {
  const { root, state, replay } = await makeLog();
  const run = makeSpooledRun('run-0001');
  const content = toLines(makeSpoolHeader(), { type: 'begun', ...run });
  const crashed = makeFinishedRun({ outcome: 'crashed', finished_at: AT, reason: 'it died' });
  writeSpool(state, content, '100-1-a.part');
  const { ended, runs } = await replay({ endLostRun: async () => toLost(crashed) });
  expect(runs).toBe(1);
  expect(ended).toMatchObject([{ run, worker: { tier: 'hourly' }, state: { path: state.path } }]);
  writeSpool(state, content, '100-1-a.part');
  // Asked again, it would throw.
  expect(await replay()).toEqual({ runs: 0, ended: [], alive: [], notes: [] });
  const rows = 'select outcome, spool_id, state from runs join jobs on jobs.id = job_id';
  expect(queryLog(root, rows)).toEqual([{ outcome: 'crashed', spool_id: 'run-0001', state: 'failed' }]);
});

test('a run that outlived its runner keeps its file until it has ended; the others are replayed', async () => {
  const { root, state, replay } = await makeLog();
  const content = toLines(makeSpoolHeader(), makeSpooledEnd('run-0001'), {
    type: 'begun',
    ...makeSpooledRun('run-0002', 'hourly/b'),
  });
  writeSpool(state, content, '100-1-a.part');
  const { alive } = await replay({ endLostRun: async () => null });
  expect(alive).toMatchObject([{ run: { start: { script: 'hourly/b' } } }]);
  expect(listSpool(state)).toEqual(['100-1-a.part']);
  expect(await replay({ endLostRun: async () => toLost(makeFinishedRun()) })).toMatchObject({ runs: 1 });
  expect(listSpool(state)).toEqual([]);
  expect(queryLog(root, 'select spool_id from runs order by id')).toEqual([
    { spool_id: 'run-0001' },
    { spool_id: 'run-0002' },
  ]);
});

/** A run that began in the log, whose worker then lost it. */
async function makeBegunInLog() {
  const log = await makeLog();
  const { store } = log;
  const { pid } = identifyDeadProcess();
  const workerId = await log.addPass('hourly', SPOOL_AT, { state: 'running', pid });
  const id = await enqueue(log);
  const [worker] = await store.workers.byId([workerId]);
  const header = makeSpoolHeader({ pid, startTicks: worker?.pid_start_ticks ?? null });
  const ref = { id, token: `${workerId}.1` };
  const at = SPOOL_AT + 10;
  const runId = await store.transaction(async ({ scriptJobs, runs }) => {
    await scriptJobs.claim([{ ...ref, state: 'running', at }]);
    const start = { ...makeSpooledRun('').start, jobId: id, workerId, key: ref.token };
    const [begun] = await runs.start([{ ...start, pid: null, startTicks: null, maxRssBytes: null }]);
    return begun as number;
  });
  const settle = (end: SpooledEnd) =>
    store.transaction((session) => {
      const start = { ...end.start, jobId: id, workerId, key: ref.token };
      return settleRuns(session, [{ ...end, claim: ref, start, runId }], { missedCap: 0 });
    });
  return { ...log, workerId, claim: ref, runId, header, settle };
}

/** Queues `hourly/a` a moment before it runs; the number of its job. */
async function enqueue({ store }: Pick<WrittenLog, 'store'>): Promise<number> {
  const script = { name: 'hourly/a', tier: 'hourly', scheduledFor: SPOOL_AT, at: SPOOL_AT + 1 };
  const [id] = await store.transaction((session) => session.scriptJobs.enqueue([script]));
  return id as number;
}

test('a run that began in the log ends there, and so does its worker', async () => {
  const { root, state, replay, claim, runId, header } = await makeBegunInLog();
  const content = toLines(header, makeEndOfClaim(claim), finish);
  for (const runs of [1, 0]) {
    writeSpool(state, content);
    expect(await replay()).toEqual({ runs, ended: [], alive: [], notes: [] });
  }
  expect(queryLog(root, 'select id, outcome, finished_at, spool_id from runs')).toEqual([
    { id: runId, outcome: 'succeeded', finished_at: SPOOL_AT + 20, spool_id: 'end-of-claim' },
  ]);
  expect(queryLog(root, 'select state, claim_token from jobs')).toEqual([{ state: 'finished', claim_token: null }]);
  expect(queryLog(root, 'select state, finished_at, reason from workers')).toEqual([
    {
      ...{ state: 'finished', finished_at: finish.finishedAt },
      reason: 'it ran without the log, because activity.db is on a full disk',
    },
  ]);
  expect(queryLog(root, 'select event, detail from events')).toEqual([
    {
      event: 'spool-replayed',
      detail: '1 run that was recorded without the log, because activity.db is on a full disk',
    },
  ]);
});

test('a run that was too short to have a row when the log was lost is written with its end', async () => {
  const { root, state, store, replay, header, workerId } = await makeBegunInLog();
  changeLog(root, `delete from runs`);
  changeLog(root, `update jobs set state = 'claimed', attempts = 0, started_at = null`);
  const [{ id } = { id: 0 }] = await store.scriptJobs.open();
  const claim = { id, token: `${workerId}.1` };
  writeSpool(state, toLines(header, makeEndOfClaim(claim), finish));
  expect(await replay()).toMatchObject({ runs: 1, notes: [] });
  const columns = 'runs.attempt, outcome, key, spool_id, state, attempts';
  expect(queryLog(root, `select ${columns} from runs join jobs on jobs.id = job_id`)).toEqual([
    {
      ...{ attempt: 1, outcome: 'succeeded', key: claim.token, spool_id: 'end-of-claim' },
      ...{ state: 'finished', attempts: 1 },
    },
  ]);
});

test('a script that its worker had claimed in the log and then ran without it is recorded once, and not run again', async () => {
  const { root, state, store, replay, header } = await makeBegunInLog();
  changeLog(root, `delete from runs`);
  changeLog(root, `update jobs set state = 'claimed', attempts = 0, started_at = null`);
  const [{ id: jobId } = { id: 0 }] = await store.scriptJobs.open();
  writeSpool(state, toLines(header, { ...makeSpooledEnd('run-0001'), jobId }, finish));
  expect(await replay()).toMatchObject({ runs: 1, notes: [] });
  expect(queryLog(root, 'select state, attempts, claim_token, spool_id from jobs, runs')).toEqual([
    { state: 'finished', attempts: 1, claim_token: null, spool_id: 'run-0001' },
  ]);
});

test('a failed end is tried again, as its job says', async () => {
  const { root, state, replay, claim, header } = await makeBegunInLog();
  const spooled = makeEndOfClaim(claim);
  const policy = { ...spooled.policy, maxAttempts: 2 };
  const end = makeFinishedRun({ outcome: 'failed', finished_at: SPOOL_AT + 20 });
  writeSpool(state, toLines(header, { ...spooled, policy, end }, finish));
  await replay();
  expect(queryLog(root, 'select state, run_at from jobs')).toEqual([{ state: 'retrying', run_at: AT + 60_000 }]);
});

test.each(['failed', 'stopped', 'crashed'] as const)(
  'a script that was %s has ended when it did, as those that waited for it have used that end',
  async (outcome) => {
    const { root, state, replay, claim, header } = await makeBegunInLog();
    const end = makeFinishedRun({ outcome, finished_at: SPOOL_AT + 20 });
    const alarm = {
      ...makeSpooledEnd('run-0002', { script: 'hourly/alarm' }),
      usedEnds: { 'hourly/a': SPOOL_AT + 20 },
    };
    writeSpool(state, toLines(header, { ...makeEndOfClaim(claim), end }, alarm, finish));
    expect(await replay()).toMatchObject({ runs: 2, notes: [] });
    expect(queryLog(root, 'select name, finished_at, ends_used from jobs order by id')).toEqual([
      { name: 'hourly/a', finished_at: SPOOL_AT + 20, ends_used: null },
      { name: 'hourly/alarm', finished_at: SPOOL_AT + 20, ends_used: `{"hourly/a":${SPOOL_AT + 20}}` },
    ]);
  },
);

/** A job that waited to be run when the log was lost, and was then run without it. */
async function makeQueuedInLog() {
  const log = await makeLog();
  const jobId = await enqueue(log);
  return { ...log, run: { ...makeSpooledEnd('run-0001'), jobId } };
}

const jobs = 'select id, name, state, attempts, finished_at from jobs order by id';

test('a job that waited in the log when that was lost is not run again', async () => {
  const { root, state, replay, run } = await makeQueuedInLog();
  const { end: _, ...begin } = run;
  const content = toLines(makeSpoolHeader(), { ...begin, type: 'begun' }, run, finish);
  for (const runs of [1, 0]) {
    writeSpool(state, content);
    expect(await replay()).toMatchObject({ runs, notes: [] });
  }
  expect(queryLog(root, jobs)).toEqual([
    { id: 1, name: 'hourly/a', state: 'finished', attempts: 1, finished_at: SPOOL_AT + 20 },
  ]);
  expect(queryLog(root, 'select job_id, attempt, outcome from runs')).toEqual([
    { job_id: 1, attempt: 1, outcome: 'succeeded' },
  ]);
});

test('a job that failed in it is tried again, if its tries are not used up', async () => {
  const { root, state, replay, run } = await makeQueuedInLog();
  changeLog(root, `update jobs set state = 'retrying', attempts = 1, run_at = ?`, AT);
  const failed = makeFinishedRun({ outcome: 'failed', finished_at: SPOOL_AT + 20 });
  writeSpool(state, toLines(makeSpoolHeader(), { ...run, end: failed }, finish));
  await replay();
  expect(queryLog(root, 'select state, attempts, run_at from jobs')).toEqual([
    { state: 'retrying', attempts: 2, run_at: AT + 60_000 },
  ]);
  expect(queryLog(root, 'select attempt from runs')).toEqual([{ attempt: 2 }]);
});

test.each([
  ['another worker has run meanwhile', `state = 'finished', finished_at = ${AT}`],
  ['another worker has queued since', `run_at = ${SPOOL_AT + 11}`],
  ['another worker runs', `state = 'running', claim_token = '7.1', attempts = 1`],
  ['is tried again by a later pass', `state = 'retrying', id = 7, run_at = ${AT}, attempts = 1`],
  ['a log made anew has by this number', `created_at = ${SPOOL_AT + 11}`],
])('a job that %s is left alone', async (_what, set) => {
  const { root, state, replay, run } = await makeQueuedInLog();
  changeLog(root, `update jobs set ${set}`);
  const before = queryLog(root, 'select * from jobs');
  writeSpool(state, toLines(makeSpoolHeader(), run, finish));
  expect(await replay()).toMatchObject({ runs: 1, notes: [] });
  expect(queryLog(root, 'select * from jobs')).toEqual(before);
  expect(queryLog(root, 'select spool_id, outcome from runs')).toEqual([
    { spool_id: 'run-0001', outcome: 'succeeded' },
  ]);
});

test('a job that is of another script is left alone', async () => {
  const { root, state, replay, run } = await makeQueuedInLog();
  changeLog(root, `update jobs set name = 'hourly/b'`);
  const [before] = queryLog(root, jobs);
  writeSpool(state, toLines(makeSpoolHeader(), run, finish));
  await replay();
  expect(queryLog(root, jobs)).toEqual([
    before,
    { id: 2, name: 'hourly/a', state: 'finished', attempts: 1, finished_at: SPOOL_AT + 20 },
  ]);
});

test('of a job that somebody took over meanwhile, nothing is changed', async () => {
  const { root, state, replay, claim, header, settle } = await makeBegunInLog();
  const end = makeFinishedRun({ outcome: 'crashed', reason: 'its runner died' });
  await settle({ ...makeEndOfClaim(claim), end });
  const rows = 'select jobs.*, runs.* from jobs, runs';
  const before = queryLog(root, rows);
  writeSpool(state, toLines(header, makeEndOfClaim(claim), finish));
  expect(await replay()).toMatchObject({ runs: 0, notes: [] });
  expect(queryLog(root, rows)).toEqual(before);
  expect(listSpool(state)).toEqual([]);
});

test('the end of a run in a log that is gone ends no other run, and is not lost', async () => {
  const { root, state, replay, claim } = await makeBegunInLog();
  const foreign = { ...claim, token: '7.1' };
  writeSpool(state, toLines(makeSpoolHeader(), makeEndOfClaim(foreign), finish));
  expect(await replay()).toMatchObject({ runs: 1, notes: [] });
  expect(queryLog(root, 'select outcome, spool_id from runs order by id')).toEqual([
    { outcome: 'running', spool_id: null },
    { outcome: 'succeeded', spool_id: 'end-of-claim' },
  ]);
});

test('a last line that breaks off is dropped, with a note', async () => {
  const { root, state, replay } = await makeLog();
  const content = toLines(makeSpoolHeader(), makeSpooledEnd('run-0001'));
  writeSpool(state, `${content}{"type":"ended","spoo`, '100-1-a.part');
  expect((await replay()).notes).toEqual([
    `The last line of ${join(state.spool, '100-1-a.part')} is incomplete; it was never acknowledged.`,
  ]);
  expect(queryLog(root, 'select spool_id from runs')).toEqual([{ spool_id: 'run-0001' }]);
  expect(listSpool(state)).toEqual([]);
});

test('a file whose worker died before it had said anything goes', async () => {
  const { root, state, replay } = await makeLog();
  writeSpool(state, '', '100-1-a.part');
  writeSpool(state, '{"type":"wor', '200-1-a.part');
  expect(await replay({ at: Date.now() })).toMatchObject({ runs: 0, notes: [] });
  expect(listSpool(state)).toHaveLength(2);
  expect(await replay({ at: Date.now() + 120_000 })).toMatchObject({ runs: 0 });
  expect(listSpool(state)).toEqual([]);
  expect(countRows(root)).toEqual({ workers: 0, jobs: 0, runs: 0, events: 0 });
});

test('what is not understood is quarantined, and what is comes into the log', async () => {
  const { root, state, replay } = await makeLog();
  const run = makeSpooledEnd('run-0002');
  const content = `${toLines(makeSpoolHeader(), makeSpooledEnd('run-0001'))}gibberish\n${toLines(run)}`;
  writeSpool(state, content);
  const path = join(state.spool, '100-1-a.jsonl');
  expect(await replay()).toMatchObject({
    runs: 2,
    notes: [
      `${path} was quarantined as 100-1-a.jsonl.unreadable: line 3 is not a record: it is not JSON. ` +
        'Its readable part is in the log; look at the file, then remove it.',
    ],
  });
  expect(readFileSync(`${path}.unreadable`, 'utf8')).toBe(content);
  expect(await replay()).toMatchObject({ runs: 0, notes: [] });
  expect(countRows(root)).toMatchObject({ runs: 2 });
});

test('a file of a newer runner is quarantined whole', async () => {
  const { root, state, replay } = await makeLog();
  const newer = { ...makeSpoolHeader(), version: 3 };
  writeSpool(state, toLines(newer, makeSpooledEnd('run-0001')));
  const { notes } = await replay();
  expect(notes).toEqual([
    expect.stringMatching(/version is 3, not 2, .+\. Nothing of it is in the log; look at the file/),
  ]);
  expect(listSpool(state)).toEqual(['100-1-a.jsonl.unreadable']);
  expect(countRows(root)).toEqual({ workers: 0, jobs: 0, runs: 0, events: 0 });
});

test('foreign files are left alone', async () => {
  const { state, replay } = await makeLog();
  writeSpool(state, 'mine', 'notes.jsonl');
  mkdirSync(join(state.spool, 'folder.part'));
  expect(await replay()).toEqual({ runs: 0, ended: [], alive: [], notes: [] });
  expect(listSpool(state).toSorted()).toEqual(['folder.part', 'notes.jsonl']);
});

test('what the log refuses stays where it is, and the next file is replayed', async () => {
  const { root, state, replay } = await makeLog();
  writeSpool(state, toLines(makeSpoolHeader(), makeSpooledEnd('run-0001')), '100-1-a.jsonl');
  writeSpool(state, toLines(makeSpoolHeader(), finish), '200-1-a.jsonl');
  changeLog(root, `create trigger r before insert on runs begin insert into hosts (id) values (null); end`);
  const { runs, notes } = await replay();
  expect(runs).toBe(0);
  expect(notes).toEqual([expect.stringMatching(/100-1-a\.jsonl stays where it is: .*hosts\.host/)]);
  expect(listSpool(state)).toEqual(['100-1-a.jsonl']);
  expect(countRows(root)).toMatchObject({ workers: 1, jobs: 0, runs: 0 });
});

test('a run that the log refuses is recorded as failed, without its words, and keeps no other back', async () => {
  const { root, state, replay } = await makeLog();
  const bad = makeFinishedRun({ finished_at: SPOOL_AT + 20, output: 'no text of this log' });
  const runs = ['run-0001', 'run-0002', 'run-0003', 'run-0004', 'run-0005'].map((id, index) =>
    makeSpooledEnd(id, { script: `hourly/${index}`, ...([1, 3].includes(index) && { end: bad }) }),
  );
  writeSpool(state, toLines(makeSpoolHeader(), ...runs, finish));
  changeLog(
    root,
    `create trigger r before insert on outputs when new.output like 'no text%'
      begin insert into hosts (id) values (null); end`,
  );
  const { runs: count, notes } = await replay();
  expect(count).toBe(5);
  expect(listSpool(state)).toEqual([]);
  expect(notes).toEqual([
    expect.stringMatching(/^A run of hourly\/1 is recorded as failed: .*hosts\.host/),
    expect.stringMatching(/^A run of hourly\/3 is recorded as failed: .*hosts\.host/),
  ]);
  const rows = queryLog(root, 'select script, outcome, output from runs order by spool_id');
  expect(rows).toMatchObject([
    { script: 'hourly/0', outcome: 'succeeded', output: 'hi\n' },
    { script: 'hourly/1', outcome: 'failed', output: null },
    { script: 'hourly/2', outcome: 'succeeded', output: 'hi\n' },
    { script: 'hourly/3', outcome: 'failed', output: null },
    { script: 'hourly/4', outcome: 'succeeded', output: 'hi\n' },
  ]);
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
});

test('more runs than one step records are recorded, and told of, once each', async () => {
  const { root, state, replay } = await makeLog();
  const runs = Array.from({ length: 450 }, (_, number) => makeSpooledEnd(`run-${number}-of-450`));
  writeSpool(state, toLines(makeSpoolHeader(), ...runs, finish));
  expect(await replay()).toMatchObject({ runs: 450, notes: [] });
  expect(countRows(root)).toEqual({ workers: 1, jobs: 1, runs: 450, events: 3 });
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
});

test.each([
  ['the same file system', tmpdir(), true],
  ['another file system', '/dev/shm', false],
])('an output file comes along from a folder on %s', async (_where, parent, isSame) => {
  const { root, state, replay } = await makeLog();
  const fallback = stateFolderAt(join(makeTemporaryFolder(parent), 'fallback'));
  expect(statSync(parent).dev === statSync(root).dev).toBe(isSame);
  for (const path of [fallback.path, fallback.spool, fallback.output]) {
    mkdirSync(path, { mode: 0o700 });
  }
  writeFileSync(join(fallback.output, 'run-0001.log.gz'), 'compressed', { mode: 0o600 });
  const files = { output_file: 'run-0001.log.gz', output_file_bytes: 10, output_bytes: 99_999 };
  const run = (spoolId: string, fields: object) =>
    makeSpooledEnd(spoolId, { end: makeFinishedRun({ finished_at: AT, ...fields }) });
  writeSpool(
    fallback,
    toLines(
      makeSpoolHeader(),
      run('run-0001', files),
      run('run-0002', { ...files, output_file: 'run-0002.log.gz' }),
      finish,
    ),
  );
  expect(await replay({}, [state, fallback])).toMatchObject({ runs: 2, notes: [] });
  expect(readFileSync(join(state.output, 'run-0001.log.gz'), 'utf8')).toBe('compressed');
  expect([readdirSync(fallback.output), readdirSync(fallback.spool)]).toEqual([[], []]);
  const columns = 'output_file, output_file_bytes, output_dropped_bytes';
  expect(queryLog(root, `select ${columns} from runs order by id`)).toEqual([
    { output_file: 'run-0001.log.gz', output_file_bytes: 10, output_dropped_bytes: 0 },
    { output_file: null, output_file_bytes: null, output_dropped_bytes: 99_996 },
  ]);
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
    { type: 'begun', ...makeSpooledRun('run-0001', 'hourly/b') },
    makeSpooledEnd('run-0001', { script: 'hourly/b' }),
    makeEndOfClaim(log.claim),
    makeSpooledEnd('run-0002', { script: 'hourly/c' }),
    { type: 'begun', ...makeSpooledRun('run-0003', 'hourly/d') },
  ];
  const records: SpoolRecord[] = [log.header, ...entries, finish];
  writeSpool(log.state, toLines(...records));
  return log;
}

/** That nothing is lost, nothing is there twice, and nothing is told twice. */
function expectReplayedOnce(root: string, state: StateFolder, tellers = 1): void {
  expect(listSpool(state)).toEqual([]);
  expect(countRows(root)).toMatchObject({ workers: 1, jobs: 4, runs: 4 });
  const ends = 'select name, state, outcome, spool_id from runs join jobs on jobs.id = job_id';
  expect(queryLog(root, `${ends} order by name`)).toEqual([
    { name: 'hourly/a', state: 'finished', outcome: 'succeeded', spool_id: 'end-of-claim' },
    { name: 'hourly/b', state: 'finished', outcome: 'succeeded', spool_id: 'run-0001' },
    { name: 'hourly/c', state: 'finished', outcome: 'succeeded', spool_id: 'run-0002' },
    { name: 'hourly/d', state: 'failed', outcome: 'crashed', spool_id: 'run-0003' },
  ]);
  // Of two in the same moment each may replay a part, and tells of that.
  const told = queryLog(root, `select id from events where event = 'spool-replayed'`).length;
  expect(told).toBeGreaterThanOrEqual(1);
  expect(told).toBeLessThanOrEqual(tellers);
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
}

test('killed before whatever it writes, it is replayed exactly once', { timeout: 180_000 }, async () => {
  const { root, state } = await makeMixedSpool();
  for (let write = 1; ; write += 1) {
    const { status, stdout, stderr } = await startNode([child, root, String(write)]).ended;
    expect(stderr).toBe('');
    if (status === 0) {
      expect(JSON.parse(stdout).writes).toBeGreaterThan(0);
      expect(write).toBeGreaterThan(15);
      break;
    }
  }
  expectReplayedOnce(root, state);
});

test('killed between the commit and the end of the file, it is replayed exactly once', async () => {
  const { root, state } = await makeMixedSpool();
  for (let times = 0; times < 2; times += 1) {
    expect((await startNode([child, root, 'unlink']).ended).status).toBe(null);
    expect(listSpool(state)).toEqual(['100-1-a.jsonl']);
  }
  expect((await startNode([child, root]).ended).status).toBe(0);
  expectReplayedOnce(root, state);
});

test('two that replay the same spool in the same moment', async () => {
  const { root, state } = await makeMixedSpool();
  const takers = [1, 2].map(() => startNode([child, root, 'meet:2']));
  const answers = await readAnswers<{ runs: number }>(takers);
  expect(answers.map(({ runs }) => runs).toSorted()).toEqual([0, 4]);
  expectReplayedOnce(root, state, 2);
});

test('a large spool, killed again and again, is replayed exactly once', async () => {
  const { root, state } = await makeLog();
  const runs = Array.from({ length: 450 }, (_, number) => makeSpooledEnd(`run-${number}-of-450`));
  writeSpool(state, toLines(makeSpoolHeader(), ...runs, finish));
  const counts: unknown[] = [];
  // In the first step, in the second, and in the third, twice each.
  for (const write of [200, 500, 1_000, 300, 700, 80]) {
    expect((await startNode([child, root, String(write)]).ended).status).toBe(null);
    counts.push(queryLog<{ runs: number }>(root, 'select count(*) as runs from runs')[0]?.runs);
  }
  expect(counts).toEqual([0, 0, 200, 200, 400, 400]);
  expect((await startNode([child, root]).ended).status).toBe(0);
  expect(countRows(root)).toEqual({ workers: 1, jobs: 1, runs: 450, events: 3 });
  expect(queryLog(root, 'select count(distinct spool_id) as runs from runs')).toEqual([{ runs: 450 }]);
  expect(listSpool(state)).toEqual([]);
});
