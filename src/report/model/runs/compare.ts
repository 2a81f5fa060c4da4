import type { LogView } from '../../../discovery/site.ts';
import { field, record, shown, type Values } from '../../../system/base/record.ts';
import { findRun } from '../../names.ts';
import { outcomeField, type RunRecord, runRecord } from './run.ts';

const comparedMeasures = ['duration', 'cpu', 'memory', 'output', 'count'] as const;

/** One figure of two runs. */
const figureRecord = record(null, {
  measure: field.words(comparedMeasures),
  name: field.text.like('mail/welcome').about('The name of the count; empty for other measures'),
  value: field.number.orNull,
  other: field.number.orNull.about('The same figure of the other run'),
});

export type ComparedFigure = Values<typeof figureRecord>;

/** A run beside another one, of whatever script. */
export const comparisonRecord = record('RunComparison', {
  with: shown.integer.about('The other run'),
  script: runRecord.fields.script,
  outcome: outcomeField,
  startedAt: runRecord.fields.startedAt,
  isContentSame: shown.flag.orNull.about('Whether both ran the same content of a file; null: not known'),
  figures: field.list(field.one(figureRecord)),
});

export type RunComparison = Values<typeof comparisonRecord>;

/** @throws {NoSuchName} if there is no other run of that number */
export async function compareWith(log: LogView, run: RunRecord, id: number): Promise<RunComparison> {
  const other = await findRun(log, id);
  const [hash, otherHash] = [run.contentHash, other.contentHash];
  const counted = [...new Set([run, other].flatMap(({ counts }) => Object.keys(counts)))];
  const figure = (measure: ComparedFigure['measure'], read: (of: RunRecord) => number | null, name = '') => ({
    ...{ measure, name },
    ...{ value: read(run), other: read(other) },
  });
  return {
    ...{ with: id, script: other.script, outcome: other.outcome, startedAtMs: other.startedAtMs },
    isContentSame: hash === null || otherHash === null ? null : hash === otherHash,
    figures: [
      figure('duration', ({ durationMs }) => durationMs),
      figure('cpu', cpuOf),
      figure('memory', ({ maxRssBytes }) => maxRssBytes),
      figure('output', ({ outputBytes }) => outputBytes),
      ...counted.map((name) => figure('count', ({ counts }) => counts[name] ?? null, name)),
    ],
  };
}

/** Null: neither part is known. */
function cpuOf({ userCpuMs, systemCpuMs }: RunRecord): number | null {
  return userCpuMs === null && systemCpuMs === null ? null : (userCpuMs ?? 0) + (systemCpuMs ?? 0);
}
