import type { Store } from '../../../src/store/store.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';

/** What keeps a log, and how tests look at one from outside. */
export interface Engine {
  readonly name: string;
  /** What a process needs in its environment to use it as the test does. */
  environment(): NodeJS.ProcessEnv;
  /** Has whatever works in a root use it, in this process and in what it starts; what it returns undoes that. */
  choose(root: string): () => void | Promise<void>;
  /** As a runner opens it. */
  openStore(state: StateFolder): Promise<Store>;
  /** False before the first pass, and of ruins. */
  hasTables(root: string): boolean;
  connect(root: string, access: Access): LogConnection;
  /** To read again and again: to connect takes ten times as long as to read. */
  watch(root: string): LogReader;
  /** What the engine itself finds wrong. */
  findDamage(log: LogConnection): string[];
  /** Keeps everybody else from writing until it is closed, which commits; null: somebody else does so. */
  hold(root: string, patienceMs: number): LogConnection | null;
  /** As if there were no room for what such statements write, as `update on runs`; what it returns makes room. */
  refuse(root: string, what: string): () => void;
  /** As if a newer runner had written the log, which this one leaves alone then; or as before that. */
  setNewer(root: string, isNewer: boolean): void;
}

/** `read`: what `viewsOf` shows, at one instant. `lie`: nothing is checked. */
export type Access = 'read' | 'change' | 'lie';

/** A log as any other program has it. */
export interface LogConnection {
  all<Row>(sql: string, ...values: readonly unknown[]): Row[];
  /** How many rows it changed. */
  change(sql: string, ...values: readonly unknown[]): number;
  close(): void;
}

export interface LogReader {
  /** At one instant, as `read` shows it. */
  look<T>(read: (log: LogConnection) => T): T;
  close(): void;
}
