import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import type { KnownTier } from '../../../src/discovery/script.ts';
import { readOverview } from '../../../src/report/model/overview.ts';
import { renderNothing, renderOverview } from '../../../src/report/terminal/overview.ts';
import { createPalette, type Screen } from '../../../src/report/terminal/screen.ts';
import { createClock } from '../../../src/report/text/clock.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { running, siteOf, type WrittenLog, writeLog } from '../../support/written-log.ts';

const HOUR = 3_600_000;
const now = Date.parse('2026-11-03T14:05:00Z');

function screen(columns: number, isColoured = false): Screen {
  const clock = createClock(now, 'Europe/Berlin');
  return { columns, palette: createPalette(isColoured), clock, nowMs: now };
}

async function render(log: WrittenLog, on: Screen, known?: readonly KnownTier[]): Promise<string> {
  const window = { sinceMs: now - 24 * HOUR, untilMs: now };
  return renderOverview(await readOverview(siteOf(log, known), window), on);
}

/** Three hourly passes, one of them missed; a failure, a script that is gone, one that never ran. */
async function writeDay(): Promise<WrittenLog> {
  const log = await writeLog(makeTemporaryRoot());
  for (const hour of [3, 1]) {
    const at = now - hour * HOUR;
    const pass = await log.addPass('hourly', at);
    await log.addRun('hourly/clean-tmp', at, { worker_id: pass, duration_us: 1000 * (hour * 40) });
    await log.addRun('hourly/check-site', at, {
      worker_id: pass,
      ...(hour === 1 && { outcome: 'failed', error_name: 'Error', error_message: 'no answer' }),
    });
  }
  await log.addRun('hourly/old', now - 20 * HOUR);
  return log;
}

const jobs: readonly KnownTier[] = [
  { tier: 'hourly', scripts: ['hourly/clean-tmp', 'hourly/check-site', 'hourly/new'] },
  { tier: 'weekly', scripts: [] },
];

describe('the overview', () => {
  test('shows everything on a wide terminal', async () => {
    const text = await render(await writeDay(), screen(120), jobs);
    expect(text).toBe(`2 Nov 15:05 to now · times in Europe/Berlin

hourly · every hour · last pass 3 Nov 14:05 · 1 succeeded, 1 failed in 1s
  1 expected pass did not happen · last from 3 Nov 12:05 to 3 Nov 14:05
  script         last run  outcome    runs  success    p50    p95    max   cpu  memory  last 20
  check-site  3 Nov 14:05  failed        2      50%  100ms  100ms  100ms  50ms    50MB  ██
    Error: no answer
  clean-tmp   3 Nov 14:05  succeeded     2     100%   40ms  120ms  120ms  50ms    50MB  █▃
  new                   –  never run     0        –      –      –      –     –       –
  old (gone)  2 Nov 19:05  succeeded     1     100%  100ms  100ms  100ms  50ms    50MB  █

weekly · every week · never called
  no scripts

4 scripts · 5 runs · 1 failed · 80% succeeded · 460ms in total · 250ms of CPU · 50MB at most
`);
  });

  test('drops what matters least on a narrow one', async () => {
    const text = await render(await writeDay(), screen(40), jobs);
    expect(text).toContain(`
hourly · every hour
  last pass 3 Nov 14:05
  1 succeeded, 1 failed in 1s
  1 expected pass did not happen
  last from 3 Nov 12:05 to 3 Nov 14:05
  script         last run  outcome
  check-site  3 Nov 14:05  failed
    Error: no answer
`);
  });

  test.each([40, 60, 80, 100, 120, 200])('is at most %d columns wide', async (columns) => {
    const log = await writeDay();
    const name = `hourly/日本語-${'very-long-name-'.repeat(9)}`;
    const pass = await log.addPass('hourly', now, { state: 'running', pid: process.pid });
    await log.addRun(name, now - HOUR, { outcome: 'failed', reason: 'because '.repeat(40) });
    await log.addRun(name, now - HOUR, { ...running, worker_id: pass, pid: process.pid });
    await log.addPass('hourly', now - 1, { state: 'skipped', reason: 'held by '.repeat(30) });
    for (const line of (await render(log, screen(columns), jobs)).split('\n')) {
      expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    }
  });

  test('names what is running now, since when and as which process', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const alive = await log.addPass('hourly', now, { state: 'running', pid: process.pid });
    await log.addRun('hourly/works', now - 83_000, { ...running, worker_id: alive, pid: 4242 });
    const dead = await log.addPass('daily', now, { state: 'running' });
    await log.addRun('daily/lost', now - 5_000, { ...running, worker_id: dead });
    const text = await render(log, screen(100));
    expect(text).toContain('  hourly/works · for 1m 23s · pid 4242 · run 1\n');
    expect(text).toContain('  daily/lost · for 5s · cut off: its process is gone · run 2\n');
  });

  test('has colours only where they are wanted, and is otherwise the same', async () => {
    const log = await writeDay();
    const coloured = await render(log, screen(120, true), jobs);
    expect(coloured).toContain('\x1b[31mfailed\x1b[39m');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the colours
    const plain = coloured.replace(/\x1b\[\d+m/g, '');
    expect(plain).toBe(await render(log, screen(120), jobs));
  });

  test('lets nothing stored reach the terminal raw', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const evil = '\x1b]0;owned\x07\x1b[2J\u202e\n\x9b';
    await log.addRun(`hourly/${evil}name`, now - HOUR, {
      outcome: 'failed',
      reason: `why ${evil}`,
      output: `said ${evil}`,
    });
    await log.addPass(`${evil}tier`, now - HOUR, { state: 'skipped', reason: `held ${evil}` });
    const pass = await log.addPass('daily', now, { state: 'running', pid: process.pid });
    await log.addRun(`daily/${evil}`, now, { ...running, worker_id: pass });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
    expect(await render(log, screen(200))).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  });
});

test('when nothing has run, a sentence says what to do', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const window = { sinceMs: 0, untilMs: now };
  const withJobs = await readOverview(siteOf(log, jobs), window);
  expect(renderNothing(withJobs, '/home/me', screen(80))).toBe(
    'Nothing has run yet; 3 scripts in /home/me/jobs.\n' +
      '`npx folder-runner hourly` runs that tier now.\n' +
      '`npx folder-runner cron --install` makes cron run it.\n',
  );
  const withoutJobs = await readOverview(siteOf(log, []), window);
  expect(renderNothing(withoutJobs, '/home/me', screen(80))).toContain(
    'There is no script in /home/me/jobs yet: add one to jobs/hourly.',
  );
});
