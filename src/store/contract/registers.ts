import type { TokenPermission } from '../words.ts';

/** A machine as it was when it last called the runner. */
export interface Machine {
  readonly host: string;
  readonly seenAt: number;
  readonly clockOffsetMs: number;
  readonly runnerVersion: string;
}

/** Which workers a machine has started since it was booted. */
export interface HostBoot {
  readonly host: string;
  readonly bootId: string | null;
  readonly firstWorker: number;
  readonly lastWorker: number;
}

/** A script that a machine has. */
export interface ScriptCopy {
  readonly name: string;
  /** Null: it is not known, as the script is refused. */
  readonly contentHash: string | null;
  /** The machines that it is for, a glob; null: all. */
  readonly hostPattern: string | null;
}

export interface HostCopy extends ScriptCopy {
  readonly host: string;
  readonly tier: string;
}

/** A filter for copies. Default: all known copies. */
export interface CopiesOf {
  /** Only copies of these scripts. */
  readonly names?: readonly string[];
  /** Only copies on machines that were seen after this. */
  readonly seenAfter?: number;
}

/** Which machines there are, and what they have. Asked only where the store has a fleet. */
export interface MachineStore {
  note(machine: Machine): Promise<void>;
  /** By host. */
  list(): Promise<Machine[]>;
  /** The boots of workers started since then, in the order of the first worker of each boot. */
  boots(sinceMs: number): Promise<HostBoot[]>;
  /** Replaces the known copies of this tier on this host; writes only differences. */
  noteCopies(host: string, tier: string, copies: readonly ScriptCopy[]): Promise<void>;
  /** By name, then host. */
  copies(of?: CopiesOf): Promise<HostCopy[]>;
  /** Deletes machines that were not seen since, with all known copies; at most `limit`. Returns how many. */
  forget(seenBefore: number, limit: number): Promise<number>;
}

/** A credential of the dashboard, without its hash. */
export interface Token {
  readonly id: number;
  readonly name: string;
  readonly permission: TokenPermission;
  readonly createdAt: number;
  /** Null: never. */
  readonly expiresAt: number | null;
  /** The beginning of the day, UTC, on which it was last used; null: it never was. */
  readonly lastUsedAt: number | null;
}

export interface HashedToken extends Token {
  /** SHA-256, hex. */
  readonly hash: string;
}

export interface TokenStore {
  /** Null: there is one of that name. */
  add(token: Omit<HashedToken, 'id' | 'lastUsedAt'>): Promise<Token | null>;
  /** By name. */
  list(): Promise<Token[]>;
  byHash(hash: string): Promise<HashedToken | null>;
  byId(id: number): Promise<HashedToken | null>;
  /** False: there is none of that name. */
  remove(name: string): Promise<boolean>;
  /** @param day its beginning, UTC */
  noteUse(id: number, day: number): Promise<void>;
}
