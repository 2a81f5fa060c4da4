import { isoInstant } from '../../system/base/record.ts';
import { printable } from '../../system/base/text.ts';
import type { ScriptOverview } from '../model/overview.ts';
import type { RunRecord } from '../model/runs/run.ts';

/** `runner report --csv`: one line for each script. Instants are ISO strings, unknown is empty. */
export async function scriptsToCsv(scripts: readonly ScriptOverview[]): Promise<string> {
  return await formatCsv(scriptTitles, (isoInstant) =>
    scripts.map(({ lastRun, ...script }) => ({
      ...script,
      lastRunId: lastRun?.id,
      lastOutcome: lastRun?.outcome,
      lastStartedAt: isoInstant(lastRun?.startedAtMs ?? null),
      lastWarning: lastRun?.warning,
    })),
  );
}

/** `runner report <script> --csv`: one line for each run. */
export async function runsToCsv(runs: readonly RunRecord[]): Promise<string> {
  return await formatCsv(runTitles, (isoInstant) =>
    runs.map(({ error, ...run }) => ({
      ...run,
      job: run.jobId,
      scheduledFor: isoInstant(run.scheduledForMs),
      startedAt: isoInstant(run.startedAtMs),
      finishedAt: isoInstant(run.finishedAtMs),
      errorName: error?.name,
      errorMessage: error?.message,
    })),
  );
}

const scriptTitles =
  'script tier presence runs succeeded failed released stopped successRate p50DurationMs p95DurationMs ' +
  'maxDurationMs cpuMs maxRssBytes lastRunId lastOutcome lastStartedAt lastError lastWarning';

const runTitles =
  'id script tier outcome attempt scheduledFor startedAt finishedAt durationMs userCpuMs systemCpuMs ' +
  'maxRssBytes measuredBy exitCode signal reason warning errorName errorMessage contentHash pid ' +
  'outputBytes outputDroppedBytes job';

type Row = Readonly<Record<string, unknown>>;

/**
 * File names and errors come from anywhere: a spreadsheet must not take one for a formula, so such
 * a cell gets an apostrophe in front (https://owasp.org/www-community/attacks/CSV_Injection).
 */
export async function formatCsv(
  titles: string,
  toRows: (instant: (atMs: number | null) => string | null) => readonly Row[],
): Promise<string> {
  const { stringify } = await import('csv-stringify/sync');
  const columns = titles.split(' ');
  const toCell = (cell: unknown) => (typeof cell === 'string' ? printable(cell) : cell);
  const rows = toRows(isoInstant).map((row) => columns.map((title) => toCell(row[title])));
  return stringify([columns, ...rows], { escape_formulas: true });
}
