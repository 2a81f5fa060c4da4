import { UsageError } from '../../system/base/errors.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { type DatabaseTarget, parseDatabaseUrl, readDatabaseFile, readDatabaseUrl } from '../server/connect/url.ts';
import type { Store } from '../store.ts';
import type { SourcePlace, TargetPlace } from './place.ts';

/** One end of a move: the file in the state folder, or a database. */
export type NamedPlace = 'sqlite' | DatabaseTarget;

export interface Ends {
  readonly from: NamedPlace;
  readonly to: NamedPlace;
}

/** How both were named on the command line, and what the words mean there. */
export interface NamedEnds {
  readonly from: string | undefined;
  readonly to: string;
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
}

/** @throws {UsageError} when a word names no place, or both name the same */
export function readEnds({ from: fromWord, to: toWord, root, env }: NamedEnds): Ends {
  const to = readPlace(toWord, '--to', root, env);
  const from = fromWord === undefined ? usualSource(to, root, env) : readPlace(fromWord, '--from', root, env);
  if (!areSame(from, to)) return { from, to };
  throw new UsageError(
    to === 'sqlite'
      ? 'The log is in the SQLite file already: RUNNER_DATABASE_URL is not set. Name its source with --from.'
      : '--from and --to name the same database; name two different ones.',
  );
}

/** The present place of the log; if the variable already names the new place, the log is still in the file. */
function usualSource(to: NamedPlace, root: string, env: NodeJS.ProcessEnv): NamedPlace {
  const current = readDatabaseUrl(root, env) ?? 'sqlite';
  return to !== 'sqlite' && areSame(current, to) ? 'sqlite' : current;
}

function areSame(one: NamedPlace, other: NamedPlace): boolean {
  if (one === 'sqlite' || other === 'sqlite') return one === other;
  const keys = ['engine', 'host', 'port', 'socket', 'database'] as const;
  return keys.every((key) => one[key] === other[key]) && (one.engine === 'mysql' || one.schema === other.schema);
}

/** The present place of the log, or the named one. */
export function readPlaceOrUsual(word: string | undefined, root: string, env: NodeJS.ProcessEnv): NamedPlace {
  return word === undefined ? (readDatabaseUrl(root, env) ?? 'sqlite') : readPlace(word, '--from', root, env);
}

function readPlace(word: string, option: string, root: string, env: NodeJS.ProcessEnv): NamedPlace {
  if (word === 'sqlite') return 'sqlite';
  if (word.includes('://')) return readBareAddress(word, option, root);
  if (/[./~]/.test(word)) return readDatabaseFile(word, option, root);
  const value = env[word]?.trim() ?? '';
  if (/^[A-Za-z_]\w*$/.test(word) && value !== '') {
    return word.endsWith('_FILE') ? readDatabaseFile(value, word, root) : parseDatabaseUrl(value, word, root);
  }
  throw new UsageError(
    `${option} must be \`sqlite\`, the name of an environment variable with the address of a database, or a file ` +
      `with it; ${JSON.stringify(word)} is none of these, or not set.`,
  );
}

/** Other accounts of the host can see the arguments of all programs. */
function readBareAddress(address: string, option: string, root: string): DatabaseTarget {
  const target = /^[^/]+:\/\/[^/?#]*:[^/?#]*@/.test(address) ? null : parseDatabaseUrl(address, option, root);
  if (target?.password === '') return target;
  throw new UsageError(
    `${option} holds a password, which \`ps\` and the history of your shell show to others: change it. Put the address ` +
      `into a file that only you may read, and name that: ${option} ~/database-url.`,
  );
}

export async function openSource(place: NamedPlace, state: StateFolder): Promise<SourcePlace> {
  if (place === 'sqlite') return await (await import('./sqlite-place.ts')).openSqliteSource(state);
  return await (await import('./server-place.ts')).openServerPlace(place);
}

export async function openTarget(place: NamedPlace, state: StateFolder): Promise<TargetPlace> {
  if (place === 'sqlite') return await (await import('./sqlite-place.ts')).openSqliteTarget(state);
  return await (await import('./server-place.ts')).openServerPlace(place);
}

/** Null: there is no log that is in use. */
export async function openExistingPlace(place: NamedPlace, state: StateFolder): Promise<Store | null> {
  const end = await openSource(place, state);
  await end.close();
  if (end.state !== 'log') return null;
  if (place !== 'sqlite') return await (await import('../server/open.ts')).openExistingServerStore(place);
  return await (await import('../sqlite/open.ts')).openExistingSqliteStore(state);
}

/** Has a log that was moved away used again, as it was then. False: it was not moved. */
export async function reopen(place: NamedPlace, state: StateFolder): Promise<boolean> {
  const source = await openSource(place, state);
  return await source.reopen().finally(() => source.close());
}
