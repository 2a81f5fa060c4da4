import { matchesNothing } from '../system/base/glob.ts';
import { invalid } from './add/values.ts';

/** One glob over names, or several: a name that matches any of them is meant. */
export type Patterns = string | readonly string[];

const LONGEST_PATTERN = 1_000;
const MOST_PATTERNS = 500;

/** @throws {QueueError} if the list is empty, or a pattern is not text */
export function readPatterns(patterns: Patterns): readonly string[] {
  const list: unknown = typeof patterns === 'string' ? [patterns] : patterns;
  const isList = Array.isArray(list) && list.length > 0 && list.length <= MOST_PATTERNS;
  if (!isList || !list.every(isPattern)) {
    throw invalid('A pattern', 'a name or a glob over names such as mail/*, or a list', patterns);
  }
  const open = list.find(matchesNothing);
  if (open === undefined) return list;
  throw invalid('A pattern', 'a glob with a ] for each [, and [[] for a [ itself', open);
}

function isPattern(pattern: unknown): pattern is string {
  return typeof pattern === 'string' && pattern !== '' && pattern.length <= LONGEST_PATTERN;
}
