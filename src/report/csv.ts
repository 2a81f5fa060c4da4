import type { instant } from './json.ts';
import type { ScriptOverview } from './model/overview.ts';
import type { RunRecord } from './model/run.ts';

/** `runner report --csv`: one line for each script. Instants are ISO strings, unknown is empty. */
export function scriptsToCsv(scripts: readonly ScriptOverview[]): Promise<string> {
  return formatCsv(scriptTitles, (instant) =>
    scripts.map(({ summary, lastRun, ...script }) => ({
      ...summary,
      ...script,
      lastRunId: lastRun?.id,
      lastOutcome: lastRun?.outcome,
      lastStartedAt: instant(lastRun?.startedAtMs ?? null),
    })),
  );
}

/** `runner report <script> --csv`: one line for each run. */
export function runsToCsv(runs: readonly RunRecord[]): Promise<string> {
  return formatCsv(runTitles, (instant) =>
    runs.map(({ error, ...run }) => ({
      ...run,
      job: run.jobId,
      scheduledFor: instant(run.scheduledForMs),
      startedAt: instant(run.startedAtMs),
      finishedAt: instant(run.finishedAtMs),
      errorName: error?.name,
      errorMessage: error?.message,
    })),
  );
}

const scriptTitles =
  'script tier presence runs succeeded failed released successRate p50DurationMs p95DurationMs ' +
  'maxDurationMs cpuMs maxRssBytes lastRunId lastOutcome lastStartedAt lastError';

const runTitles =
  'id script tier outcome attempt scheduledFor startedAt finishedAt durationMs userCpuMs systemCpuMs ' +
  'maxRssBytes measuredBy exitCode signal reason warning errorName errorMessage contentHash pid ' +
  'outputBytes outputDroppedBytes job';

type Row = Readonly<Record<string, unknown>>;

/**
 * File names and errors come from anywhere: a spreadsheet must not take one for a formula, so such
 * a cell gets an apostrophe in front (https://owasp.org/www-community/attacks/CSV_Injection).
 */
async function formatCsv(
  titles: string,
  toRows: (toInstant: typeof instant) => readonly Row[],
): Promise<string> {
  const { stringify } = await import('csv-stringify/sync');
  const { printable } = await import('../base/text.ts');
  const { instant } = await import('./json.ts');
  const columns = titles.split(' ');
  const toCell = (cell: unknown) => (typeof cell === 'string' ? printable(cell) : cell);
  const rows = toRows(instant).map((row) => columns.map((title) => toCell(row[title])));
  return stringify([columns, ...rows], { escape_formulas: true });
}
