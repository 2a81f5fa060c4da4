import { appendFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { readRunOutput, tailScript } from '../../../src/report/model/runs/output.ts';
import { selectRun } from '../../../src/report/model/runs/runs.ts';
import { makeFinishedRun } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { running, type WrittenLog, writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const script = 'hourly/index';

/** A tail under way, and what it has written up to now. */
function startTail(log: WrittenLog, isFollowing: boolean) {
  const shown = { output: '', notes: '' };
  const abort = new AbortController();
  const write = async (text: string): Promise<boolean> => {
    shown.output += text;
    return true;
  };
  const note = (text: string): void => {
    shown.notes += `${text}\n`;
  };
  const { db, state } = log;
  const tail = { db, state, script, isFollowing, signal: abort.signal, output: { write }, note };
  return { shown, abort, ended: tailScript(tail) };
}

async function startRun(log: WrittenLog): Promise<{ id: number; file: string }> {
  const pass = await log.addPass('hourly', now, { state: 'running', pid: process.pid });
  const own = { worker_id: pass, claim_number: 1, pid: process.pid };
  const id = await log.addRun(script, now, { ...running, ...own });
  return { id, file: join(log.state.output, `${pass}.1.log`) };
}

/** As the runner ends a run: first the row, then the file goes. */
async function endRun(log: WrittenLog, { id, file }: { id: number; file: string }, output: string) {
  const start = {
    ...{ jobId: 1, workerId: null, key: null, script, contentHash: null, attempt: 1 },
    ...{ scheduledFor: null, startedAt: now, timeoutMs: null },
  };
  const end = makeFinishedRun({ finished_at: now + 1200, duration_us: 1_200_000, output });
  await log.store.transaction(({ runs }) => runs.end([{ ...start, runId: id, end, leftJob: null }]));
  rmSync(file, { force: true });
  log.change("update workers set state = 'finished'");
}

describe('without following', () => {
  test('the newest run is shown, and a line is ended', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun(script, now - 1000, { output: 'old' });
    await log.addRun(script, now, { outcome: 'failed', reason: 'exit code 3', output: 'a\nb\x1b[1m' });
    const { shown, ended } = startTail(log, false);
    await ended;
    expect(shown).toEqual({ output: 'a\nb\n', notes: 'run 2 of hourly/index: failed, exit code 3.\n' });
  });

  test('a run that goes on is shown as far as it is', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const run = await startRun(log);
    writeFileSync(run.file, 'half');
    const { shown, ended } = startTail(log, false);
    await ended;
    expect(shown.output).toBe('half\n');
    expect(shown.notes).toContain('is still running; -f follows it.');
  });

  test('a script that never ran has nothing to show', async () => {
    const { shown, ended } = startTail(await writeLog(makeTemporaryRoot()), false);
    await ended;
    expect(shown).toEqual({ output: '', notes: 'hourly/index has never run.\n' });
  });
});

describe('following', () => {
  test('shows what is written while it is written, to the last byte', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const run = await startRun(log);
    writeFileSync(run.file, 'one\n');
    const { shown, ended } = startTail(log, true);
    await until('the first line is shown', () => shown.output === 'one\n');
    appendFileSync(run.file, Buffer.from('zwei: \xc3', 'latin1'));
    await until('half a line is shown', () => shown.output === 'one\nzwei: ');
    appendFileSync(run.file, Buffer.from('\xa4\nlast', 'latin1'));
    await endRun(log, run, 'one\nzwei: ä\nlast');
    await ended;
    expect(shown.output).toBe('one\nzwei: ä\nlast\n');
    expect(shown.notes).toBe('run 1 of hourly/index succeeded in 1.2s.\n');
  });

  test('waits for the next run when none goes on', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun(script, now - 1000, { output: 'old' });
    const { shown, ended } = startTail(log, true);
    await until('it waits', () => shown.notes.includes('waiting for its next run'));
    const run = await startRun(log);
    writeFileSync(run.file, 'new\n');
    // How the last one ended stands above.
    await until('that run is shown', () => shown.output === 'old\nnew\n');
    expect(shown.notes).toMatch(/^run 1 of hourly\/index succeeded in \S+\n.*waiting for its next run/);
    await endRun(log, run, 'new\n');
    await ended;
  });

  test('shows a run that began and ended between two looks', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const { shown, ended } = startTail(log, true);
    await until('it waits', () => shown.notes.includes('waiting'));
    await log.addRun(script, now, { output: 'quick\n' });
    await ended;
    expect(shown.output).toBe('quick\n');
  });

  test('goes on when the runner cut the middle out of a long file', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const run = await startRun(log);
    writeFileSync(run.file, 'x'.repeat(1000));
    const { shown, ended } = startTail(log, true);
    await until('all of it is shown', () => shown.output.length === 1000);
    truncateSync(run.file, 10);
    await until('the gap is told', () => shown.output.includes('[… output left out …]'));
    appendFileSync(run.file, 'end');
    await endRun(log, run, '');
    await ended;
    expect(shown.output.endsWith('end\n')).toBe(true);
  });

  test('ends when the process of the run is gone', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const pass = await log.addPass('hourly', now, { state: 'running', pid: process.pid });
    await log.addRun(script, now, { ...running, worker_id: pass, claim_number: 1 });
    writeFileSync(join(log.state.output, `${pass}.1.log`), 'last words');
    const { shown, ended } = startTail(log, true);
    await until('its output is shown', () => shown.output === 'last words');
    log.change('update workers set pid = 5000000');
    await ended;
    expect(shown.notes).toMatch(/: crashed, the runner \(pid 5000000 on .*\) died while it ran\.\n$/);
  });

  test.each([true, false])('is ended at once and quietly by an abort (running: %j)', async (isRunning) => {
    const log = await writeLog(makeTemporaryRoot());
    if (isRunning) writeFileSync((await startRun(log)).file, 'on and on\n');
    const { shown, abort, ended } = startTail(log, true);
    await until('something is shown', () => shown.output + shown.notes !== '');
    const before = shown.notes;
    abort.abort();
    await ended;
    expect(shown.notes).toBe(before);
  });
});

describe('kept output', () => {
  async function read(log: WrittenLog, id: number, isFull: boolean): Promise<string> {
    const run = await selectRun(log, id);
    let text = '';
    if (run) for await (const piece of readRunOutput(log.state, run, isFull)) text += piece;
    return text;
  }

  test('is the ends from the log, or in full what the compressed file holds', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const all = 'zeile ä\n'.repeat(50_000);
    const id = await log.addRun(script, now, { output: 'ends', output_file: '1.log.gz' });
    writeFileSync(join(log.state.output, '1.log.gz'), gzipSync(all));
    expect(await read(log, id, false)).toBe('ends');
    expect(await read(log, id, true)).toBe(all);
  });

  test.each([
    ['gone', null],
    ['damaged', Buffer.from('no gzip')],
    ['cut short', gzipSync('x'.repeat(9000)).subarray(0, 30)],
  ])('falls back on the ends when the file is %s', async (_, content) => {
    const log = await writeLog(makeTemporaryRoot());
    const id = await log.addRun(script, now, { output: 'ends', output_file: '1.log.gz' });
    if (content) writeFileSync(join(log.state.output, '1.log.gz'), content);
    expect(await read(log, id, true)).toMatch(/1\.log\.gz cannot be read .*\]\nends$/s);
  });

  test('is never read from outside its folder', async () => {
    const root = makeTemporaryRoot({ 'secret.gz': { content: gzipSync('secret'), mode: 0o600 } });
    const log = await writeLog(root);
    const id = await log.addRun(script, now, { output: '', output_file: '../../secret.gz' });
    expect(await read(log, id, true)).not.toContain('secret\n');
    expect(await read(log, id, true)).toContain('is not the name of such a file');
  });
});
