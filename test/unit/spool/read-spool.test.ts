import { spawnSync } from 'node:child_process';
import { appendFileSync, chmodSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { SpoolFile } from '../../../src/store/spool/files.ts';
import { isReady, readSpool } from '../../../src/store/spool/read.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { makeSpooledEnd, makeSpoolHeader, SPOOL_AT, toLines } from '../../support/faults/spool.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** A spool file with this content. */
function makeFile(content: string, name = '1-2-ab.jsonl'): SpoolFile {
  const file = { content, mode: 0o600 };
  const { spool } = stateFolderOf(makeTemporaryRoot({ [`.runner/spool/${name}`]: file }));
  return { path: join(spool, name), isClosed: name.endsWith('.jsonl') };
}

const read = (content: string) => [...readSpool(makeFile(content).path)];
const header = makeSpoolHeader();
const run = makeSpooledEnd('run-0001');

test('a last line that breaks off is told from a whole one, wherever it does', () => {
  const line = toLines(run);
  for (const length of [1, 10, line.length - 2, line.length - 1]) {
    expect(read(toLines(header, run) + line.slice(0, length))).toEqual([header, run, { type: 'torn' }]);
  }
  expect(read('')).toEqual([]);
});

test('lines longer than a piece of the file are read whole', () => {
  const runs = [1, 2, 3].map((number) => makeSpooledEnd(`run-000${number}`, { end: withOutput(number) }));
  expect(read(toLines(header, ...runs))).toEqual([header, ...runs]);
});

function withOutput(number: number) {
  const output = String(number).repeat(number * 50_000);
  return { ...run.end, output, output_bytes: output.length };
}

test.each([
  ['no JSON', 'once upon a time\n', 'it is not JSON'],
  ['no object', '[1]\n', 'it is not an object'],
  ['null', 'null\n', 'it is not an object'],
  ['nothing', '\n', 'it is not JSON'],
  ['of no type', '{}\n', 'its type is missing'],
  ['of an unknown type', '{"type":"pause"}\n', 'its type is "pause"'],
  ['of a type that every object has', '{"type":"toString"}\n', 'its type is "toString"'],
  ['another header', toLines(header), 'it is a worker'],
  ['without a field', toLines({ ...run, jobId: undefined }), 'jobId is missing, not a whole number from 0 on'],
  [
    'with a wrong time',
    toLines({ ...run, start: { ...run.start, startedAt: 1.5 } }),
    'start.startedAt is 1.5, not a whole number',
  ],
  [
    'with control characters in a name',
    toLines({ ...run, start: { ...run.start, script: 'a\u001b[2Jb' } }),
    'start.script is "a\\u001b[2Jb", not a name',
  ],
  [
    'that leads out of its folder',
    toLines({ ...run, end: { ...run.end, output_file: '../../etc/passwd' } }),
    'end.output_file is "../../etc/passwd", not an output file',
  ],
  [
    'with a run that has not ended',
    toLines({ ...run, end: { ...run.end, outcome: 'running' } }),
    'end.outcome is "running", not one of succeeded, failed, timed-out, killed, crashed, not-started, released, stopped',
  ],
  ['without its end', toLines({ ...run, end: 7 }), 'end is 7, not an object'],
  ['that is too long', `${'x'.repeat(5 * 1024 * 1024)}\n`, 'it is longer than 4194304 bytes'],
])('a line %s is told of, and those after it are read', (_what, line, problem) => {
  expect(read(toLines(header) + line + toLines(run))).toEqual([
    header,
    { type: 'not-understood', problem: `line 2 is not a record: ${problem}` },
    run,
  ]);
});

test('a handler’s decision is read as it was written, whatever it asks for', () => {
  const asked = { delayMs: 1_000, runAt: 7, failure: 'no answer', priority: 3, name: 'mail', data: '{"n":1}' };
  const decisions = [
    { kind: 'retry', ...asked },
    { kind: 'retry' },
    { kind: 'fail', reason: 'no such order' },
  ] as const;
  const runs = decisions.map((decision, index) => makeSpooledEnd(`run-000${index}`, { decision }));
  expect(read(toLines(header, ...runs))).toEqual([header, ...runs]);
});

test('a version that is not known yet is told of', () => {
  const [first] = read(toLines({ ...header, version: 3 }));
  expect(first).toEqual({
    type: 'not-understood',
    problem: 'line 1 is not a record: version is 3, not 2, the one that this runner knows',
  });
});

test('a record is read without values beside its fields', () => {
  const more = { ...run, id: 7, end: { ...run.end, job_id: 7, 'x" = 1 --': 1 } };
  expect(read(toLines(header, more))).toEqual([header, run]);
});

test('a file that others can write, a pipe and a symlink are not read', () => {
  const open = makeFile(toLines(header));
  chmodSync(open.path, 0o602);
  expect(() => [...readSpool(open.path)]).toThrow("is not this user's own file");
  const pipe = `${open.path}-pipe`;
  expect(spawnSync('mkfifo', ['-m', '600', pipe]).status).toBe(0);
  expect(() => [...readSpool(pipe)]).toThrow("is not this user's own file");
  const link = `${open.path}-link`;
  symlinkSync(makeFile(toLines(header)).path, link);
  expect(() => [...readSpool(link)]).toThrow('ELOOP');
});

const DAY_MS = 24 * 60 * 60 * 1_000;

/** Whether a file of an open spool is ready, so long after it was last written. */
function isReadyAfter(content: string, ms: number): boolean {
  const file = makeFile(content, '1-2-ab.part');
  utimesSync(file.path, SPOOL_AT / 1_000, SPOOL_AT / 1_000);
  return isReady(file, SPOOL_AT + ms);
}

test('an open spool is ready when its worker is dead; of another host, after a week of silence', () => {
  const living = toLines(makeSpoolHeader(identifyProcess(process.pid)));
  const elsewhere = toLines(makeSpoolHeader({ host: 'web9' }));
  const rebooted = toLines(makeSpoolHeader({ ...identifyProcess(process.pid), bootId: 'another' }));
  expect(isReadyAfter(toLines(header), 0)).toBe(true);
  expect(isReadyAfter(rebooted, 0)).toBe(true);
  expect(isReadyAfter(living, 30 * DAY_MS)).toBe(false);
  expect(isReadyAfter(elsewhere, 6 * DAY_MS)).toBe(false);
  expect(isReadyAfter(elsewhere, 8 * DAY_MS)).toBe(true);
});

test('an open spool without a whole line is waited for a minute, one of a newer runner for a week', () => {
  expect(isReadyAfter('', 30_000)).toBe(false);
  expect(isReadyAfter('{"type":"wor', 30_000)).toBe(false);
  expect(isReadyAfter('{"type":"wor', 90_000)).toBe(true);
  // The clock was set back since.
  expect(isReadyAfter('', -DAY_MS)).toBe(true);
  expect(isReadyAfter('{"type":"worker","version":3}\n', DAY_MS)).toBe(false);
  expect(isReadyAfter('{"type":"worker","version":3}\n', 8 * DAY_MS)).toBe(true);
});

test('a closed spool is ready, whoever wrote it', () => {
  expect(isReady(makeFile(''), SPOOL_AT)).toBe(true);
});

test('a file that grows while it is read is read to where it was torn', () => {
  const file = makeFile(toLines(header));
  const lines = readSpool(file.path);
  expect(lines.next().value).toEqual(header);
  appendFileSync(file.path, '{"type":"ended"');
  expect([...lines]).toEqual([{ type: 'torn' }]);
});
