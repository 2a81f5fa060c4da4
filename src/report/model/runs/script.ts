import type { LogView } from '../../../discovery/site.ts';
import { usualOf } from '../../../store/statements/monitor/usual.ts';
import type { StoreSession } from '../../../store/store.ts';
import { field, record, shown, type Values } from '../../../system/base/record.ts';

/** A content that a script has had, and when it first ran. */
export const versionRecord = record(null, {
  contentHash: shown.text.like('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'),
  firstRunAt: shown.instant,
});

type ScriptVersion = Values<typeof versionRecord>;

/** Which contents a script has had, the newest first. */
export async function selectVersions({ db }: LogView, script: string, limit: number): Promise<ScriptVersion[]> {
  return await db
    .selectFrom('script_versions')
    .innerJoin('scripts', 'scripts.id', 'script_versions.script_id')
    .select(['content_hash as contentHash', 'first_run_at as firstRunAtMs'])
    .where('scripts.name', '=', script)
    .orderBy('first_run_at', 'desc')
    .orderBy('script_versions.id', 'desc')
    .limit(limit)
    .execute();
}

/** Medians of a script's last successful runs; null: none of them has the figure. */
export const usualRecord = record(null, {
  /** How many runs that is known of. */
  runs: shown.integer,
  durationMs: shown.number.orNull,
  maxRssBytes: shown.number.orNull,
  outputBytes: shown.number.orNull,
  counts: field.map(field.number),
});

const riseFields = {
  factor: shown.number.about('How many times the usual it is'),
  since: shown.instant.from('since').about('Start of the first success that was so'),
  isFileChanged: shown.flag.orNull.about('Whether its file changed with that run; null: not known'),
  fileChanged: shown.instant.orNull
    .from('fileChanged')
    .about('When the changed file first ran; null: it has not changed, or nobody knows'),
};

/** How much longer than usual a script takes, and how much more memory it needs. */
export const risesRecord = record(null, {
  slower: shown
    .one(
      record('Slower', {
        durationMs: shown.number.about('Of its newest success'),
        usualMs: shown.number.about('Before it got slower'),
        ...riseFields,
      }),
    )
    .orNull.about('Each success lasts much longer than usual since then; null: it is as usual'),
  heavier: shown
    .one(
      record('Heavier', {
        maxRssBytes: shown.number.about('Peak memory of its newest success'),
        usualBytes: shown.number.about('Before it needed more'),
        ...riseFields,
      }),
    )
    .orNull.about('Each success needs much more memory than usual since then; null: it is as usual'),
});

export type Rises = Values<typeof risesRecord>;

export const noRises: Rises = { slower: null, heavier: null };

/** The part of a site that tells what has risen. */
interface SeenLog {
  readonly store: StoreSession | null;
  readonly nowMs: number;
}

export async function readRisesOf({ store, nowMs }: SeenLog, script: string): Promise<Rises> {
  return (await readRises(store, nowMs, script)).get(script) ?? noRises;
}

/**
 * The risen figures of all scripts, or of this one; the most slowed down first. Scripts without any are left out.
 *
 * @param store null: nothing was ever recorded
 */
export async function readRises(
  store: StoreSession | null,
  nowMs: number,
  script?: string,
): Promise<ReadonlyMap<string, Rises>> {
  const rises = new Map<string, Rises>();
  if (store === null) return rises;
  for (const rise of await usualOf(store.statements).rises(nowMs, script)) {
    const { measure, value, usual, since, isFileChanged, fileChanged } = rise;
    const facts = { factor: value / usual, since, isFileChanged, fileChanged };
    const risen =
      measure === 'duration'
        ? { slower: { durationMs: value, usualMs: usual, ...facts } }
        : { heavier: { maxRssBytes: value, usualBytes: usual, ...facts } };
    rises.set(rise.script, { ...noRises, ...rises.get(rise.script), ...risen });
  }
  return rises;
}

/**
 * The usual figures; of what has risen, that of before.
 *
 * @param store null: nothing was ever recorded
 */
export async function readUsual(
  store: StoreSession | null,
  script: string,
  nowMs: number,
  rises?: Rises,
): Promise<Values<typeof usualRecord>> {
  if (store === null) return { runs: 0, durationMs: null, maxRssBytes: null, outputBytes: null, counts: {} };
  const figures = await usualOf(store.statements).figures(script, nowMs);
  const { slower, heavier } = rises ?? (await readRisesOf({ store, nowMs }, script));
  return {
    ...figures,
    durationMs: slower?.usualMs ?? figures.durationMs,
    maxRssBytes: heavier?.usualBytes ?? figures.maxRssBytes,
  };
}
