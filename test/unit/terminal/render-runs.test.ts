import { expect, test } from 'vitest';
import { readScriptRuns, selectRun } from '../../../src/report/model/runs/runs.ts';
import { renderRun, renderRuns } from '../../../src/report/terminal/runs.ts';
import { createPalette, type Screen } from '../../../src/report/terminal/screen.ts';
import { createClock } from '../../../src/report/text/clock.ts';
import { machineName } from '../../../src/system/process/identity.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { running, writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const window = { sinceMs: now - 3_600_000, untilMs: now };

function screen(columns: number): Screen {
  const clock = createClock(now, 'Europe/Berlin');
  return { columns, palette: createPalette(false), clock, nowMs: now };
}

const failure = {
  outcome: 'failed',
  exit_code: 1,
  reason: 'exit code 1',
  error_name: 'TypeError',
  error_message: 'x is not a function',
  error_stack: 'TypeError: x is not a function\n    at jobs/hourly/clean.ts:3:1',
  output_bytes: 90_000,
  output_dropped_bytes: 2048,
} as const;

test('the runs of a script are a table, newest first', async () => {
  const log = await writeLog(makeTemporaryRoot());
  await log.addRun('hourly/clean', now - 120_000, failure);
  await log.addRun('hourly/clean', now - 60_000);
  const report = await readScriptRuns(log, 'hourly/clean', { ...window, limit: 2 });
  expect(renderRuns(report, screen(120))).toBe(`hourly/clean · since 3 Nov 14:05 · times in Europe/Berlin

run  started              outcome    try  duration  user  system  memory  output  why
  2  2026-11-03 15:04:00  succeeded    1     100ms  40ms    10ms    50MB       –
  1  2026-11-03 15:03:00  failed       1     100ms  40ms    10ms    50MB  87.9KB  TypeError: x is not a function
`);
});

test('a cut table says so, and an empty one how to see more', async () => {
  const log = await writeLog(makeTemporaryRoot());
  await log.addRun('hourly/clean', now - 120_000);
  await log.addRun('hourly/clean', now - 60_000);
  const cut = await readScriptRuns(log, 'hourly/clean', { ...window, limit: 1 });
  expect(renderRuns(cut, screen(80))).toMatch(/\n\nthe newest 1 run; --limit shows more\n$/);
  const none = await readScriptRuns(log, 'hourly/clean', { ...window, outcomes: ['killed'] });
  expect(renderRuns(none, screen(80))).toContain('--since 90d goes further back');
});

test('one run is shown with everything that is known of it', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const id = await log.addRun('hourly/clean', now - 60_000, {
    ...failure,
    scheduled_for: now - 61_000,
    pid: 42,
    content_hash: '0123456789abcdef',
  });
  const run = await selectRun(log, id);
  expect(run && renderRun(run, screen(80))).toBe(`hourly/clean · run 1 · failed
exit code 1

started       2026-11-03 15:04:00 (Europe/Berlin)
finished      2026-11-03 15:04:00
was due       2026-11-03 15:03:59, 1s before it started
attempt       1
duration      100ms
cpu           40ms user, 10ms system
memory        50MB at its peak
measured by   exact, by the script’s own process
exit code     1
machine       ${machineName()}
pid           42
content       sha256 0123456789ab
output        87.9KB, 2KB of them dropped

error
TypeError: x is not a function
    at jobs/hourly/clean.ts:3:1
`);
});

test('what is unknown is left out, and what is stored is safe to show', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const id = await log.addRun('hourly/\x1b[2Jx', now - 60_000, {
    ...running,
    reason: 'why\x07',
    error_message: 'a\x9b\nb',
    signal: 'SIG\x07',
  });
  const run = await selectRun(log, id);
  expect(run && renderRun(run, screen(80))).toBe(`hourly/x · run 1 · running
why␇

started       2026-11-03 15:04:00 (Europe/Berlin)
attempt       1
signal        SIG␇
machine       ${machineName()}

error
a<U+009B>
b
`);
});
