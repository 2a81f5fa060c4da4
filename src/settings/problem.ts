/** One wrong value in a tag or a setting. */
export interface Problem {
  /** Relative to the root. */
  readonly file: string;
  readonly line: number | null;
  /** As written in the file: `@timeout`, `tiers.hourly.timeout`. */
  readonly setting: string;
  /** Completes "must be …". */
  readonly expected: string;
  readonly found: unknown;
  /** Completes the setting's name instead of "must be …, found …". */
  readonly statement?: string | undefined;
  /** Whether a message may name only the kind of the value found. */
  readonly isSecret?: boolean;
}

/** `jobs/hourly/clean.sh:3: @timeout must be a duration such as 30s, 10m or 2h, found "10 parsecs"` */
export function describeProblem(problem: Problem): string {
  const place = problem.line === null ? problem.file : `${problem.file}:${problem.line}`;
  if (problem.statement !== undefined) return `${place}: ${problem.setting} ${problem.statement}`;
  const found = problem.isSecret ? describeKind(problem.found) : describeValue(problem.found);
  return `${place}: ${problem.setting} must be ${problem.expected}, found ${found}`;
}

function describeKind(value: unknown): string {
  return typeof value === 'object' || value === undefined ? describeValue(value) : `a ${typeof value}`;
}

const longestShown = 60;

function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return JSON.stringify(shorten(value));
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'function') return 'a function';
  return String(value);
}

function shorten(text: string): string {
  const letters = [...text];
  return letters.length <= longestShown ? text : `${letters.slice(0, longestShown).join('')}…`;
}
