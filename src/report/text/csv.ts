import { isoInstant } from '../../system/base/record.ts';
import { printable } from '../../system/base/text.ts';
import type { ScriptOverview } from '../model/overview.ts';
import type { RunRecord } from '../model/runs/run.ts';

/** `runner report --csv`: one line for each script. Instants are ISO strings, unknown is empty. */
export function scriptsToCsv(scripts: readonly ScriptOverview[]): string {
  return formatCsv(scriptTitles, (isoInstant) =>
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
export function runsToCsv(runs: readonly RunRecord[]): string {
  return formatCsv(runTitles, (isoInstant) =>
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
  'script tier presence runs succeeded failed released successRate p50DurationMs p95DurationMs ' +
  'maxDurationMs cpuMs maxRssBytes lastRunId lastOutcome lastStartedAt lastError lastWarning';

const runTitles =
  'id script tier outcome attempt scheduledFor startedAt finishedAt durationMs userCpuMs systemCpuMs ' +
  'maxRssBytes measuredBy exitCode signal reason warning errorName errorMessage contentHash pid ' +
  'outputBytes outputDroppedBytes job';

type Row = Readonly<Record<string, unknown>>;

export function formatCsv(
  titles: string,
  toRows: (instant: (atMs: number | null) => string | null) => readonly Row[],
): string {
  const columns = titles.split(' ');
  const rows = toRows(isoInstant).map((row) => columns.map((title) => toCell(row[title])));
  return [columns, ...rows].map((cells) => `${cells.join(',')}\n`).join('');
}

function toCell(value: unknown): string {
  const text = typeof value === 'string' ? withoutFormula(printable(value)) : String(value ?? '');
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * File names and errors come from anywhere: a spreadsheet must not take one for a formula, so such
 * a cell gets an apostrophe in front (https://owasp.org/www-community/attacks/CSV_Injection).
 */
function withoutFormula(text: string): string {
  return /^[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text;
}
