import type { Kysely } from 'kysely';
import type { ReadCrontab } from '../schedule/crontab-times.ts';
import { loadSettings } from '../settings/load.ts';
import type { ActivityLog } from '../store/schema.ts';
import type { DueJobsRow } from '../store/statements/monitor/checks.ts';
import type { Pause } from '../store/statements/pauses.ts';
import type { Store } from '../store/store.ts';
import { UsageError } from '../system/base/errors.ts';
import { once } from '../system/base/values.ts';
import { trustedFallbacksOf } from '../system/place/fallback.ts';
import { type StateFolder, stateFolderOf } from '../system/place/state-folder.ts';
import { lookIntoJobs } from './discover.ts';
import type { KnownTier } from './script.ts';

/** The log for queries, and the folder of output files. Reading shows dead runs as the next pass will record them. */
export interface LogView {
  readonly db: Kysely<ActivityLog>;
  readonly state: StateFolder;
}

interface SiteParts {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  /** UTC epoch milliseconds. */
  readonly nowMs: number;
  /** Null: nothing was ever recorded, or the log cannot be read. The caller that opened the site closes it. */
  readonly store: Store | null;
  /** Why a log that exists cannot be read; null: it can, or there is none. */
  readonly problem: string | null;
  readonly crontab: ReadCrontab;
  /** Gets a sentence for each folder of `jobs/` that cannot be read. */
  readonly note?: (problem: string) => void;
}

/**
 * A root at one moment. Each part is read when it is first asked for, and then kept; reading changes nothing.
 */
export class Site {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  readonly nowMs: number;
  readonly store: Store | null;
  readonly problem: string | null;
  readonly state: StateFolder;
  /** When the crontab calls the tiers. */
  readonly crontab: ReadCrontab;
  readonly #parts: SiteParts;

  constructor(parts: SiteParts) {
    this.#parts = parts;
    this.root = parts.root;
    this.env = parts.env;
    this.nowMs = parts.nowMs;
    this.store = parts.store;
    this.problem = parts.problem;
    this.state = stateFolderOf(parts.root, parts.env);
    this.crontab = once(parts.crontab);
  }

  /** The same site as it is expected to be at another moment. */
  at(nowMs: number): Site {
    return new Site({ ...this.#parts, nowMs });
  }

  /** Folders that may hold records: the root's own, and those used while it cannot be written. */
  readonly states = once((): readonly [StateFolder, ...StateFolder[]] => [
    this.state,
    ...trustedFallbacksOf(this.root),
  ]);

  /** The pauses in force. */
  readonly pauses = once(async (): Promise<readonly Pause[]> => (await this.store?.pauses.inForce(this.nowMs)) ?? []);

  /** Jobs of the queue that are due, by name. */
  readonly due = once(async (): Promise<readonly DueJobsRow[]> => {
    if (this.store === null) return [];
    const { checksOf } = await import('../store/statements/monitor/checks.ts');
    return await checksOf(this.store.statements).due(this.nowMs);
  });

  /** The log for reports, without rows if there is none. */
  readonly view = once(async (): Promise<LogView> => {
    const db = this.store?.queries() ?? (await import('../store/shared/queries.ts')).emptyQueries();
    return { db: await db, state: this.state };
  });

  /** @throws {UsageError} (rejects) if they are wrong */
  readonly settings = once(() => loadSettings(this.root, this.env));

  /** The content of `jobs/`, with every file read. */
  readonly jobs = once(async () => lookIntoJobs(this.root));

  /** The scripts and handlers of `jobs/` by their names alone; undefined: `jobs/` cannot be read. */
  readonly known = once(async (): Promise<readonly KnownTier[] | undefined> => {
    const { readKnownTiers } = await import('./folder.ts');
    const { note = () => {} } = this.#parts;
    try {
      return readKnownTiers(this.root, note);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      note(`jobs/ could not be read. ${error.message}`);
      return undefined;
    }
  });
}
