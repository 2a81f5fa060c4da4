import { shellWord } from '../base/values.ts';
import { recordActivity } from '../store/events.ts';
import type { PauseKind } from '../store/schema.ts';
import { matchGlob, queryRaw } from '../store/sqlite/queries.ts';
import type { Database } from '../store/store.ts';

/** What is not to be run for a while. */
export interface Pause {
  /** `*`: everything; a tier's name; a script's: `hourly/clean-tmp`; `queue/` and a glob of job names. */
  readonly name: string;
  /** Default: `pause`. */
  readonly kind?: PauseKind;
  /** Epoch milliseconds; null: until it is resumed. */
  readonly until: number | null;
  readonly createdAt: number;
}

/** The pauses in force; one that has run out is as good as gone. */
export async function selectPauses(db: Database, at: number): Promise<Pause[]> {
  return await db
    .selectFrom('pauses')
    .select(['name', 'kind', 'until', 'created_at as createdAt'])
    .where(({ or, eb }) => or([eb('until', 'is', null), eb('until', '>', at)]))
    .orderBy('name')
    .execute();
}

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
  /** What fits one of these waits. */
  readonly paused: readonly string[];
  /** What fits one of these fails once it is due. */
  readonly fused: readonly string[];
}

/** What is not to be handed out of the queue now. */
export async function selectPausedPatterns(db: Database, at: number): Promise<PausedPatterns> {
  const text = 'select name, kind from pauses where until is null or until > ? order by name';
  const pauses = await queryRaw<{ name: string; kind: PauseKind }>(db, text, [at]);
  const patternsOf = (wanted: PauseKind) =>
    pauses.filter(({ kind }) => kind === wanted).flatMap(({ name }) => pausedPattern(name) ?? []);
  return { paused: patternsOf('pause'), fused: patternsOf('fuse') };
}

/** Pauses the name from now on; a pause that it had is replaced. */
export async function pause(db: Database, pause: Pause): Promise<void> {
  const { name, kind = 'pause', until, createdAt } = pause;
  await db.transaction().execute(async (transaction) => {
    await transaction
      .insertInto('pauses')
      .values({ name, kind, until, created_at: createdAt })
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet({ kind, until, created_at: createdAt }),
      )
      .execute();
    const what = kind === 'fuse' ? `${name} fails` : name;
    const detail = until === null ? what : `${what} until ${new Date(until).toISOString()}`;
    await recordActivity(transaction, { at: createdAt, event: 'paused', detail });
  });
}

/** Ends pauses: this name's, or all there are. The names that were paused. */
export async function resume(db: Database, name: string | null, at: number): Promise<string[]> {
  return await db.transaction().execute(async (transaction) => {
    const query = transaction.deleteFrom('pauses').returning(['name', 'until']);
    const ended = await (name === null ? query : query.where('name', '=', name)).execute();
    const inForce = ended.filter(({ until }) => until === null || until > at);
    for (const { name: detail } of inForce) {
      await recordActivity(transaction, { at, event: 'resumed', detail });
    }
    return inForce.map((each) => each.name);
  });
}

/** The name that stands for every tier and the queue. */
export const EVERYTHING = '*';

/** The name that stands for all jobs of the queue. */
export const WHOLE_QUEUE = 'queue';

/** Under which name a pause of jobs of the queue is kept: `queue/mail/*`. */
export function pauseNameOf(pattern: string): string {
  return pattern === '*' ? WHOLE_QUEUE : `${WHOLE_QUEUE}/${pattern}`;
}

/** The glob over names of jobs that a pause holds back; null: it is one of a tier or a script. */
export function pausedPattern(name: string): string | null {
  if (name === EVERYTHING || name === WHOLE_QUEUE) return '*';
  return name.startsWith(`${WHOLE_QUEUE}/`) ? name.slice(WHOLE_QUEUE.length + 1) : null;
}

/** As people say it: `everything`, `hourly`, `the queue`, `mail/*`. */
export function wordsOfPaused(name: string): string {
  if (name === EVERYTHING) return 'everything';
  return name === WHOLE_QUEUE ? 'the queue' : (pausedPattern(name) ?? name);
}

/** The command that ends it, to be pasted into a shell. */
export function resumeCommandOf(name: string): string {
  if (name === EVERYTHING) return 'runner resume';
  const word = name === WHOLE_QUEUE ? name : (pausedPattern(name) ?? name);
  return `runner resume ${shellWord(word)}`;
}
