import { expect, test } from 'vitest';
import { readOverview } from '../../../src/report/model/overview.ts';
import { readScriptRuns } from '../../../src/report/model/runs/runs.ts';
import { runsToCsv, scriptsToCsv } from '../../../src/report/text/csv.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { running, siteOf, writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const window = { sinceMs: now - 3_600_000, untilMs: now };

test('the overview has a line for each script, and empty cells for what is unknown', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const id = await log.addRun('hourly/clean', now - 60_000, running);
  const { scripts } = await readOverview(siteOf(log), window);
  expect((await scriptsToCsv(scripts)).split('\n')).toEqual([
    'script,tier,presence,runs,succeeded,failed,released,stopped,successRate,p50DurationMs,p95DurationMs,maxDurationMs,cpuMs,maxRssBytes,lastRunId,lastOutcome,lastStartedAt,lastError,lastWarning',
    `hourly/clean,hourly,unknown,1,0,0,0,0,,,,,,,${id},running,2026-11-03T14:04:00.000Z,,`,
    '',
  ]);
});

test('one script has a line for each run', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const id = await log.addRun('hourly/clean', now - 60_000, {
    outcome: 'failed',
    reason: 'exit code 1',
    error_name: 'Error',
    error_message: 'said "no",\ntwice',
    exit_code: 1,
  });
  const { runs } = await readScriptRuns(log, 'hourly/clean', window);
  expect(await runsToCsv(runs)).toBe(
    'id,script,tier,outcome,attempt,scheduledFor,startedAt,finishedAt,durationMs,userCpuMs,systemCpuMs,maxRssBytes,measuredBy,exitCode,signal,reason,warning,errorName,errorMessage,contentHash,pid,outputBytes,outputDroppedBytes,job\n' +
      `${id},hourly/clean,hourly,failed,1,,2026-11-03T14:04:00.000Z,2026-11-03T14:04:00.100Z,100,40,10,52428800,self,1,,exit code 1,,Error,"said ""no"",\ntwice",,,,,\n`,
  );
});

test('a spreadsheet takes no cell for a formula, and a terminal none for a command', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const message = '=HYPERLINK("https://evil.example")\x1b[2J\x07';
  await log.addRun('hourly/x', now - 60_000, { outcome: 'failed', error_message: message });
  const { runs } = await readScriptRuns(log, 'hourly/x', window);
  expect(await runsToCsv(runs)).toContain(`"'=HYPERLINK(""https://evil.example"")␇"`);
});

test('nothing to tell is a line of titles', async () => {
  expect(await runsToCsv([])).toMatch(/^id,script,.*\n$/);
});
