import { type RawBuilder, sql } from 'kysely';
import { matchesNothing } from '../store/sqlite/queries.ts';
import { invalid } from './add/values.ts';

/** One glob over names, or several: a name that fits any of them is meant. */
export type Patterns = string | readonly string[];

const LONGEST_PATTERN = 1_000;
const MOST_PATTERNS = 500;

/** @throws {QueueError} if there is none, or one is no text */
export function readPatterns(patterns: Patterns): readonly string[] {
  const list: unknown = typeof patterns === 'string' ? [patterns] : patterns;
  const isList = Array.isArray(list) && list.length > 0 && list.length <= MOST_PATTERNS;
  if (!isList || !list.every(isPattern)) {
    throw invalid('A pattern', 'a name or a glob over names such as mail/*, or a list', patterns);
  }
  const open = list.find(matchesNothing);
  if (open === undefined) return list;
  throw invalid('A pattern', 'a ] for each [, and [[] for a [ itself', open);
}

function isPattern(pattern: unknown): pattern is string {
  return typeof pattern === 'string' && pattern !== '' && pattern.length <= LONGEST_PATTERN;
}

const magic = /[*?[]/;

/**
 * The condition that a job's name fits. Only a single name is looked up in an index: with the others
 * SQLite would sort all that fit, rather than take the first ones in their order.
 */
export function fitsPatterns(patterns: readonly string[]): RawBuilder<boolean> {
  if (patterns.includes('*')) return sql<boolean>`1`;
  const names = patterns.filter((pattern) => !magic.test(pattern));
  const globs = patterns.filter((pattern) => magic.test(pattern));
  if (globs.length === 0 && names.length === 1) return sql<boolean>`jobs.name = ${names[0]}`;
  const isNamed = names.length === 0 ? [] : [sql`+jobs.name in (${sql.join(names)})`];
  const fits = globs.map((glob) => sql`+jobs.name glob ${glob}`);
  return sql<boolean>`(${sql.join([...isNamed, ...fits], sql` or `)})`;
}
