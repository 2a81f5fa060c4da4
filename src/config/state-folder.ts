import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

/** Where everything lives that the runner itself writes: `<root>/.runner/`. */
export interface StateFolder {
  readonly path: string;
  readonly database: string;
  readonly locks: string;
  /** Output of running scripts, and compressed output too long for the log. */
  readonly output: string;
  /** What a child's probe leaves behind at its end. */
  readonly results: string;
  readonly cache: string;
  /** One temporary folder for each running script. */
  readonly temporary: string;
}

export function stateFolderOf(root: string): StateFolder {
  const path = join(root, '.runner');
  return {
    path,
    database: join(path, 'activity.db'),
    locks: join(path, 'locks'),
    output: join(path, 'output'),
    results: join(path, 'results'),
    cache: join(path, 'cache'),
    temporary: join(path, 'tmp'),
  };
}

/** Modes are explicit: under cron's umask 000 other users could read what scripts print. */
export function createStateFolder(folder: StateFolder): void {
  for (const path of [
    folder.path,
    folder.locks,
    folder.output,
    folder.results,
    folder.cache,
    folder.temporary,
  ]) {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  }
}
