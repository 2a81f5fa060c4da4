import { readdirSync, readFileSync, statSync } from 'node:fs';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import type { FinishedRun } from '../../../src/store/schema.ts';
import { hasSpool, listSpoolFiles } from '../../../src/store/spool/files.ts';
import { readSpool, type SpoolEntry } from '../../../src/store/spool/read.ts';
import { type StateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { newSpoolId, SpoolWriter } from '../../../src/worker/loop/spool-recorder.ts';
import { startNode } from '../../support/command.ts';
import { makeSpooledEnd, makeSpooledRun, makeSpoolingWorker, SPOOL_AT } from '../../support/faults/spool.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { tries } from '../../support/tries.ts';
import { until } from '../../support/until.ts';

const append = new URL('append.child.ts', import.meta.url).pathname;

function readAll(state: StateFolder): unknown[] {
  return listSpoolFiles(state).flatMap(({ path }) => [...readSpool(path)]);
}

test('what is appended is there at once, and the file is handed over when it is closed', () => {
  const state = stateFolderOf(makeTemporaryRoot());
  expect(hasSpool(state)).toBe(false);
  const writer = new SpoolWriter(state, makeSpoolingWorker());
  const begin: SpoolEntry = { type: 'begun', ...makeSpooledRun('run-0001') };
  const run = makeSpooledEnd('run-0001');
  writer.append(begin);
  writer.append(run);
  const header = { type: 'worker', version: 2, spoolId: expect.any(String), ...makeSpoolingWorker() };
  expect(readAll(state)).toEqual([header, begin, run]);
  expect(readdirSync(state.spool)).toEqual([expect.stringMatching(/^\d{13}-\d+-[a-z\d]+\.part$/)]);
  expect(hasSpool(state)).toBe(true);

  writer.close({ finishedAt: SPOOL_AT + 30, reason: null });
  expect(readdirSync(state.spool)).toEqual([expect.stringMatching(/\.jsonl$/)]);
  const finish = { type: 'finished', finishedAt: SPOOL_AT + 30, reason: null };
  expect(readAll(state)).toEqual([header, begin, run, finish]);
});

test.each([0o000, 0o022])("a spool is its owner's alone, even with umask %o", (umask) => {
  const before = process.umask(umask);
  onTestFinished(() => void process.umask(before));
  const state = stateFolderOf(makeTemporaryRoot());
  new SpoolWriter(state, makeSpoolingWorker());
  expect(statSync(state.spool).mode & 0o777).toBe(0o700);
  for (const { path } of listSpoolFiles(state)) expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('a spool that cannot be made says why, and leaves nothing', () => {
  const state = stateFolderOf(makeTemporaryRoot({ '.runner/spool': 'a file in its place' }));
  expect(() => new SpoolWriter(state, makeSpoolingWorker())).toThrow(
    expect.objectContaining({
      name: 'SpoolError',
      code: 'EEXIST',
      message: expect.stringMatching(/spool\/.+\.part cannot be written: EEXIST/),
    }),
  );
  expect(hasSpool(state)).toBe(false);
});

test('each run has an id of its own, which can be the name of a file', () => {
  const ids = Array.from({ length: 100 }, newSpoolId);
  expect(new Set(ids).size).toBe(100);
  for (const id of ids) expect(id).toMatch(/^[\w-]{8,64}$/);
});

test('whatever was acknowledged is there after a SIGKILL, in its order', async () => {
  const root = makeTemporaryRoot();
  const state = stateFolderOf(root);
  // From the first records to a file that has been written for a while.
  for (const wanted of [3, 10, 31, 80]) {
    const child = startNode([append, root]);
    await until('some records', () => countRuns(state, child.pid) > wanted);
    child.kill('SIGKILL');
    const told = (await child.ended).stdout.split('\n').filter((line) => line !== '');
    const file = listSpoolFiles(state).find(({ path }) => path.includes(`-${child.pid}-`));
    const records = [...readSpool(file?.path ?? '')].filter((line) => line.type === 'ended');
    const ids = records.map((record) => record.spoolId);
    expect(told.length).toBeGreaterThanOrEqual(wanted);
    expect(ids.slice(0, told.length)).toEqual(told);
    // One more may be on the disk, of which nobody was told.
    expect(ids.length - told.length).toBeLessThanOrEqual(1);
  }
});

function countRuns(state: StateFolder, pid: number): number {
  const file = listSpoolFiles(state).find(({ path }) => path.includes(`-${pid}-`));
  return file === undefined ? 0 : readFileSync(file.path, 'utf8').split('"type":"ended"').length - 1;
}

test('spools of one process and moment have names of their own', () => {
  const state = stateFolderOf(makeTemporaryRoot());
  for (let number = 0; number < 20; number += 1) new SpoolWriter(state, makeSpoolingWorker());
  expect(listSpoolFiles(state)).toHaveLength(20);
});

const integer = fc.maxSafeInteger();
const count = fc.nat();
const text = fc.string({ unit: 'binary', maxLength: 200 });
const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 50 }).map((each) => `n${each}`);
const orNull = <T>(each: fc.Arbitrary<T>) => fc.option(each);

const finishedRun: fc.Arbitrary<FinishedRun> = fc.record({
  outcome: fc.constantFrom('succeeded', 'failed', 'timed-out', 'killed', 'crashed', 'not-started'),
  finished_at: integer,
  duration_us: orNull(count),
  user_cpu_us: orNull(count),
  system_cpu_us: orNull(count),
  max_rss_bytes: orNull(count),
  rss_delta_bytes: orNull(integer),
  measured_by: orNull(fc.constantFrom('self', 'sampled')),
  exit_code: orNull(integer),
  signal: orNull(name),
  reason: orNull(text),
  warning: orNull(text),
  suspect: fc.constantFrom(0, 1),
  error_name: orNull(text),
  error_message: orNull(text),
  error_stack: orNull(text),
  output_bytes: orNull(count),
  output_dropped_bytes: orNull(count),
  output_file: orNull(fc.uuid().map((id) => `${id}.log.gz`)),
  output_file_bytes: orNull(count),
  output: orNull(text),
});

const policy = fc.record({
  maxAttempts: count,
  delay: fc.record({ firstMs: count, factor: count, longestMs: count }),
  onCrash: orNull(fc.constantFrom('retry', 'skip', 'fail')),
});

const spooledRun = {
  spoolId: fc.uuid(),
  claim: orNull(fc.record({ id: count, token: name })),
  jobId: orNull(count),
  tier: orNull(name),
  slot: orNull(integer),
  start: fc.record({
    script: name,
    contentHash: orNull(name),
    attempt: count,
    scheduledFor: orNull(integer),
    startedAt: integer,
    timeoutMs: orNull(count),
  }),
  policy,
};

const decision = fc.oneof(
  fc.record({ kind: fc.constant('fail' as const), reason: text }),
  fc.record(
    { kind: fc.constant('retry' as const), delayMs: count, priority: integer, name, data: text },
    { requiredKeys: ['kind'] },
  ),
);

/** Also as a machine tells it of a script that each runs for itself. */
const entry: fc.Arbitrary<SpoolEntry> = fc
  .tuple(
    fc.oneof(
      fc.record({ type: fc.constant('begun' as const), ...spooledRun }),
      fc.record({
        ...{ type: fc.constant('ended' as const), ...spooledRun, end: finishedRun },
        ...{ isRetryable: fc.boolean(), result: orNull(text), decision: orNull(decision) },
      }),
    ),
    fc.option(fc.record({ onlyHost: name }), { nil: {} }),
  )
  .map(([each, host]) => ({ ...each, ...host }));

test('what is read is what was written, whatever that is', () => {
  const property = fc.property(fc.array(entry, { maxLength: 8 }), text, (entries, reason) => {
    const state = stateFolderOf(makeTemporaryRoot());
    const writer = new SpoolWriter(state, makeSpoolingWorker({ reason }));
    for (const each of entries) writer.append(each);
    writer.close({ finishedAt: SPOOL_AT, reason });
    expect(readAll(state)).toEqual([
      { type: 'worker', version: 2, spoolId: expect.any(String), ...makeSpoolingWorker({ reason }) },
      ...entries,
      { type: 'finished', finishedAt: SPOOL_AT, reason },
    ]);
  });
  fc.assert(property, { numRuns: tries(150) });
});
