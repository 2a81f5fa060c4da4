import type { Pause } from '../store/statements/pauses.ts';
import type { StoreSession } from '../store/store.ts';
import type { PauseKind } from '../store/words.ts';
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

/** Pauses the name from now on, and replaces an earlier pause of that name. Call it in a transaction. */
export async function pause(session: StoreSession, pause: Pause): Promise<void> {
  const { name, kind, until, createdAt: at } = pause;
  await session.pauses.set(pause);
  const what = kind === 'fail-fast' ? `${name} fails` : name;
  const detail = until === null ? what : `${what} until ${new Date(until).toISOString()}`;
  await session.events.record([{ at, event: 'paused', detail }]);
}

/** Ends the pause of this name, or all pauses. Returns the names that were paused. Call it in a transaction. */
export async function resume(session: StoreSession, name: string | null, at: number): Promise<string[]> {
  const ended = await session.pauses.remove(name);
  const names = ended.filter(({ until }) => until === null || until > at).map((each) => each.name);
  await session.events.record(names.map((detail) => ({ at, event: 'resumed' as const, detail })));
  return names;
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
