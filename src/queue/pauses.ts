import type { Pause } from '../store/statements/pauses.ts';
import type { StoreSession } from '../store/store.ts';
import type { PauseKind } from '../store/words.ts';
import { UsageError } from '../system/base/errors.ts';
import { matchGlob } from '../system/base/glob.ts';
import { shellWord } from '../system/base/values.ts';

/** The pause that keeps this tier, script, or job (`queue/mail/welcome`) from running: the widest one. */
export function findPause(pauses: readonly Pause[], name: string): Pause | null {
  const [tier = ''] = name.split('/', 1);
  const wide = [EVERYTHING, tier, name].map((each) => pauses.find((pause) => pause.name === each));
  return wide.find((pause) => pause !== undefined) ?? findPattern(pauses, name);
}

function findPattern(pauses: readonly Pause[], name: string): Pause | null {
  if (!name.startsWith(`${WHOLE_QUEUE}/`)) return null;
  return pauses.find((pause) => matchGlob(pause.name, name)) ?? null;
}

/** Globs over names of jobs. */
interface PausedPatterns {
  /** Jobs that match one of these wait. */
  readonly paused: readonly string[];
  /** Jobs that match one of these fail once they are due. */
  readonly failFast: readonly string[];
}

/** The jobs that the pauses in force keep from being handed out. */
export function pausedPatterns(pauses: readonly Pause[]): PausedPatterns {
  const patternsOf = (wanted: PauseKind) =>
    pauses.filter(({ kind }) => kind === wanted).flatMap(({ name }) => pausedPattern(name) ?? []);
  return { paused: patternsOf('pause'), failFast: patternsOf('fail-fast') };
}

interface PauseWish {
  /** Length in milliseconds; undefined: until it is resumed. */
  readonly forMs?: number | undefined;
  /** Whether due jobs fail instead of waiting; only for jobs of the queue. */
  readonly fail?: boolean | undefined;
  /** The person who pauses it; left out: unknown. */
  readonly by?: string | null;
}

/**
 * The pause of this name from now on.
 *
 * @throws {UsageError} if it is to fail scripts, which have no queue that fills up while they wait
 */
export function pauseOf(name: string, { forMs, fail = false, by = null }: PauseWish, at: number): Pause {
  if (fail && (name === EVERYTHING || pausedPattern(name) === null)) {
    throw new UsageError(
      "--fail needs names of jobs of the queue, such as `npx folder-runner pause 'mail/*' --fail`, or " +
        '`npx folder-runner pause queue --fail` for all of them.',
    );
  }
  return {
    name,
    kind: fail ? 'fail-fast' : 'pause',
    until: forMs === undefined ? null : at + forMs,
    createdAt: at,
    by,
  };
}

/** Records pauses; each replaces an earlier one of its name. Call it in a transaction. */
export async function pause(session: StoreSession, pauses: readonly Pause[]): Promise<void> {
  for (const pause of pauses) {
    const { name, kind, until, createdAt: at } = pause;
    await session.pauses.set(pause);
    const what = kind === 'fail-fast' ? `${name} fails` : name;
    const detail = until === null ? what : `${what} until ${new Date(until).toISOString()}`;
    await session.events.record([{ at, event: 'paused', detail }]);
  }
}

/** The result of ending pauses. */
interface Resumed {
  /** The names that were paused. */
  readonly ended: readonly string[];
  /** The pauses that still keep the names from running. */
  readonly wider: readonly Pause[];
}

/** Ends the pauses of these names, or all pauses. Call it in a transaction. */
export async function resume(session: StoreSession, names: readonly string[] | null, at: number): Promise<Resumed> {
  const removed: Pause[] = [];
  for (const name of names ?? [null]) removed.push(...(await session.pauses.remove(name)));
  const ended = removed.filter(({ until }) => until === null || until > at).map(({ name }) => name);
  await session.events.record(ended.map((detail) => ({ at, event: 'resumed' as const, detail })));
  const rest = await session.pauses.inForce(at);
  return { ended, wider: [...new Set((names ?? []).flatMap((name) => findPause(rest, name) ?? []))] };
}

/** The name that stands for every tier and the queue. */
export const EVERYTHING = '*';

/** The name that stands for all jobs of the queue. */
export const WHOLE_QUEUE = 'queue';

/** The name under which a pause of queued jobs is stored: `queue/mail/*`. */
export function pauseNameOf(pattern: string): string {
  return pattern === '*' ? WHOLE_QUEUE : `${WHOLE_QUEUE}/${pattern}`;
}

/** The glob over names of jobs that a pause holds back; null: it pauses a tier or a script. */
export function pausedPattern(name: string): string | null {
  if (name === EVERYTHING || name === WHOLE_QUEUE) return '*';
  return name.startsWith(`${WHOLE_QUEUE}/`) ? name.slice(WHOLE_QUEUE.length + 1) : null;
}

/** The name in words: `everything`, `hourly`, `the queue`, `mail/*`. */
export function wordsOfPaused(name: string): string {
  if (name === EVERYTHING) return 'everything';
  return name === WHOLE_QUEUE ? 'the queue' : (pausedPattern(name) ?? name);
}

/** The command that ends the pause, ready to be pasted into a shell. */
export function resumeCommandOf(name: string): string {
  if (name === EVERYTHING) return 'npx folder-runner resume';
  const word = name === WHOLE_QUEUE ? name : (pausedPattern(name) ?? name);
  return `npx folder-runner resume ${shellWord(word)}`;
}
