import { addCount, type Counts, MOST_COUNTS } from '../../child/counts.ts';
import { errorCode } from '../../system/base/errors.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { describeFound } from '../../system/base/values.ts';
import type { Masker } from '../secrets.ts';

/** The file named by the variable RUNNER_COUNTS: `name number` on each line. */
export function countsFileOf({ temporary }: { readonly temporary: string }): string {
  return `${temporary}/.counts`;
}

/** The counts of a run; `warning` names the first line that could not be understood. */
export interface ReadCounts {
  readonly counts?: Counts;
  readonly warning: string | null;
}

/**
 * Combines the counts in a run's file with those that its Node process has made itself.
 *
 * @param own the counts of the Node process
 */
export function readCounts(files: { readonly temporary: string }, own: Counts | undefined, masker: Masker): ReadCounts {
  const text = readIfThere(countsFileOf(files));
  if (text === null || text instanceof Error) {
    return { ...(own && { counts: own }), warning: text && `RUNNER_COUNTS was ignored: ${text.message}` };
  }
  const counts = new Map(Object.entries(own ?? {}));
  let problem: string | null = null;
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const expected = addLine(counts, line.trim());
    if (expected === null) continue;
    const found = describeFound(masker.text(line.trim().slice(0, 80)));
    problem ??= `line ${index + 1} of RUNNER_COUNTS was ignored: it must be ${expected}, found ${found}`;
  }
  const isNone = counts.size === 0;
  return { ...(!isNone && { counts: maskCounts(Object.fromEntries(counts), masker) }), warning: problem };
}

/** Masks the names, which may contain a secret. */
export function maskCounts(counts: Counts, masker: Masker): Counts {
  return Object.fromEntries(Object.entries(counts).map(([name, value]) => [masker.text(name), value]));
}

function addLine(counts: Map<string, number>, line: string): string | null {
  const [, name, number] = /^(\S+)\s+(\S+)$/.exec(line) ?? [];
  if (name === undefined || number === undefined) return 'a name and a number, as in: orders 12';
  return addCount(counts, name, /^[-+]?[\d.]+(?:e[-+]?\d+)?$/i.test(number) ? Number(number) : null);
}

/** Null: there is no file, which is usual. */
function readIfThere(path: string): string | Error | null {
  try {
    return readPlainFile(path);
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '') ? null : (error as Error);
  }
}

/** Whether a value has the form that the child's runtime reports: a handler can write there, too. */
export function areCounts(value: unknown): value is Counts {
  if (typeof value !== 'object' || value === null || Object.keys(value).length > MOST_COUNTS) return false;
  return Object.entries(value).every(([name, number]) => addCount(new Map(), name, number) === null);
}
