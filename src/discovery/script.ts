import { statSync } from 'node:fs';
import type { ScriptOptions } from '../settings/readers.ts';
import { machineName } from '../system/process/identity.ts';

/** A runnable file of a tier, or a handler of queued jobs; or why it is refused. */
export interface Script {
  /** `<tier>/<file without extension>`: `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly name: string;
  /** Of a handler: `queue`. */
  readonly tier: string;
  /** Absolute path of the file that is run (a folder's `index.*` included). */
  readonly path: string;
  readonly launch: Launch;
  readonly options: ScriptOptions;
  /** SHA-256 of the file, hex; of a Node script with what it imports of the root. Null if it could not be read. */
  readonly contentHash: string | null;
  /** What keeps it from running: one clear sentence each. Empty: it runs. */
  readonly refusals: readonly string[];
  /** What looks like a mistake but does not keep it from running: `@timout`. */
  readonly warnings: readonly string[];
}

/** `node`: run by the runner's own Node with the probe. `program`: by this argument vector. */
export type Launch =
  | {
      readonly kind: 'node';
      /** It exports nothing that could be called: looking for that costs each start 1 ms. */
      readonly exportsNothing?: true;
    }
  | { readonly kind: 'program'; readonly command: readonly [string, ...string[]] };

/** A file under `jobs/` that is no script, and why. */
export interface Ignored {
  /** Absolute. */
  readonly path: string;
  readonly reason: string;
  /** It is a folder without `index.*`, whose files may have been meant to run. */
  readonly isPlainFolder?: true;
  /** The command after which it is a script; absent: there is none. */
  readonly chmod?: string;
}

/** Whether it has times of its own: passes of its tier do not run it at each call. A refused one is told by each. */
export function hasOwnTimes({ options, refusals }: Pick<Script, 'options' | 'refusals'>): boolean {
  return refusals.length === 0 && (options.schedule !== undefined || options.reboot === true);
}

/**
 * When its file was put there or last changed; null: it cannot be looked at. Not the time of its content: a file that
 * was moved here, or made executable, is new as a script.
 */
export function fileChangedMs({ path }: Pick<Script, 'path'>): number | null {
  try {
    return statSync(path).ctimeMs;
  } catch {
    return null;
  }
}

export interface Tier {
  readonly name: string;
  /** Null: a tier that only runs by hand. */
  readonly periodMs: number | null;
  readonly scripts: readonly Script[];
  /** Scripts that say that they run on other machines. Left out: none. */
  readonly elsewhere?: readonly Script[];
}

/** "runs on web-*; this is db-1" */
export function describeHosts({ options }: Script): string {
  return `runs on ${(options.host ?? []).join(', ')}; this is ${machineName()}`;
}

/** A folder of `jobs/` that cannot be read: what is in it is unknown. */
export interface Unread {
  /** Its name; of the handlers' folder `queue`. */
  readonly tier: string;
  /** In one sentence. */
  readonly reason: string;
}

export interface Discovery {
  readonly tiers: readonly Tier[];
  /** The others go on without them. */
  readonly unread: readonly Unread[];
  /** When all of `jobs/` was looked at. */
  readonly handlers: readonly Script[];
  readonly ignored: readonly Ignored[];
  /** Scripts and handlers that say that they run on other machines. */
  readonly elsewhere: readonly Script[];
  /** Settings that fit nothing here, when all tiers were looked at: one sentence each. */
  readonly warnings: readonly string[];
}
