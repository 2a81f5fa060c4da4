import { statSync } from 'node:fs';

/** Tells that a deploy has taken place. */
export interface FileWatch {
  /** The path of a file that was changed, made or removed since; null: none. */
  findChanged(): string | null;
}

export function createFileWatch(paths: readonly string[]): FileWatch {
  const before = new Map(paths.map((path) => [path, markOf(path)]));
  return {
    findChanged: () => paths.find((path) => markOf(path) !== before.get(path)) ?? null,
  };
}

/** A file that cannot be looked at is as good as missing. */
function markOf(path: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(path);
    return `${ino} ${size} ${mtimeMs}`;
  } catch {
    return 'missing';
  }
}
