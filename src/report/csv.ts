import { stringify } from 'csv-stringify/sync';
import { printable } from '../base/text.ts';
import { instant } from './json.ts';
import type { ScriptOverview } from './model/overview.ts';
import type { RunRecord } from './model/run.ts';

type Cell = string | number | null;

/** `runner report --csv`: one line for each script. Instants are ISO strings, unknown is empty. */
export function scriptsToCsv(scripts: readonly ScriptOverview[]): string {
  return formatCsv(
    scripts.map(({ script, tier, presence, summary, lastRun, lastError }) => ({
      script,
      tier,
      presence,
      runs: summary.runs,
      succeeded: summary.succeeded,
      failed: summary.failed,
      released: summary.released,
      successRate: summary.successRate,
      p50DurationMs: summary.p50DurationMs,
      p95DurationMs: summary.p95DurationMs,
      maxDurationMs: summary.maxDurationMs,
      cpuMs: summary.cpuMs,
      maxRssBytes: summary.maxRssBytes,
      lastRunId: lastRun?.id ?? null,
      lastOutcome: lastRun?.outcome ?? null,
      lastStartedAt: instant(lastRun?.startedAtMs ?? null),
      lastError,
    })),
    scriptTitles,
  );
}

/** `runner report <script> --csv`: one line for each run. */
export function runsToCsv(runs: readonly RunRecord[]): string {
  return formatCsv(
    runs.map(({ jobId, error, scheduledForMs, startedAtMs, finishedAtMs, ...run }) => ({
      ...run,
      job: jobId,
      scheduledFor: instant(scheduledForMs),
      startedAt: instant(startedAtMs),
      finishedAt: instant(finishedAtMs),
      errorName: error?.name ?? null,
      errorMessage: error?.message ?? null,
    })),
    runTitles,
  );
}

const scriptTitles = [
  'script',
  'tier',
  'presence',
  'runs',
  'succeeded',
  'failed',
  'released',
  'successRate',
  'p50DurationMs',
  'p95DurationMs',
  'maxDurationMs',
  'cpuMs',
  'maxRssBytes',
  'lastRunId',
  'lastOutcome',
  'lastStartedAt',
  'lastError',
];

const runTitles = [
  'id',
  'script',
  'tier',
  'outcome',
  'attempt',
  'scheduledFor',
  'startedAt',
  'finishedAt',
  'durationMs',
  'userCpuMs',
  'systemCpuMs',
  'maxRssBytes',
  'measuredBy',
  'exitCode',
  'signal',
  'reason',
  'warning',
  'errorName',
  'errorMessage',
  'contentHash',
  'pid',
  'outputBytes',
  'outputDroppedBytes',
  'job',
];

/**
 * File names and errors come from anywhere: a spreadsheet must not take one for a formula, so such
 * a cell gets an apostrophe in front (https://owasp.org/www-community/attacks/CSV_Injection).
 */
function formatCsv(rows: readonly Readonly<Record<string, Cell>>[], titles: string[]): string {
  const safe = rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([title, cell]) => [title, toSafeCell(cell)])),
  );
  return stringify(safe, { header: true, columns: titles, escape_formulas: true });
}

function toSafeCell(cell: Cell): Cell {
  return typeof cell === 'string' ? printable(cell) : cell;
}
