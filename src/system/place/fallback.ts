import { lstatSync, mkdirSync, readdirSync, realpathSync, rmdirSync, rmSync, type Stats, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { createStateFolder, listStateFolders, type StateFolder, stateFolderAt } from './state-folder.ts';
import { isPrivateGroup } from './trust.ts';

/**
 * Where a root's state goes when its `.runner/` cannot be written: a folder under the system's temporary one, or, as
 * that name is anybody's to take, one in the home. Knowing where makes nothing. They never hold a log: that would be
 * a second truth.
 */
export function fallbackStateFoldersOf(root: string): readonly StateFolder[] {
  const hash = hashOf(realpathSync.native(root));
  const temporary = join(tmpdir(), `folder-runner-${process.getuid?.() ?? 0}-${hash}`);
  const home = stateHome();
  return [temporary, ...(home === null ? [] : [join(home, `folder-runner-${hash}`)])].map((path) =>
    stateFolderAt(path),
  );
}

/** Those of them that are there, and that nobody else can have put something in: all that is ever read. */
export function trustedFallbacksOf(root: string): readonly StateFolder[] {
  return judgeFallbacks(root).flatMap(({ state, reason }) => (reason === null ? [state] : []));
}

/** Those of them that are there and are not read, with what speaks against them. */
export function distrustedFallbacksOf(root: string): readonly { readonly path: string; readonly reason: string }[] {
  return judgeFallbacks(root).flatMap(({ state: { path }, reason }) => (reason === null ? [] : [{ path, reason }]));
}

/** One that goes while it is looked at is not there. */
function judgeFallbacks(root: string) {
  return fallbackStateFoldersOf(root).flatMap((state) => {
    try {
      if (lstatSync(state.path, { throwIfNoEntry: false }) === undefined) return [];
      return [{ state, reason: reasonAgainstPrivateFolder(state.path) }];
    } catch {
      return [];
    }
  });
}

/** As the XDG specification says: a path that is not absolute does not count. */
function stateHome(): string | null {
  const { XDG_STATE_HOME = '', HOME = '' } = process.env;
  if (isAbsolute(XDG_STATE_HOME)) return XDG_STATE_HOME;
  return isAbsolute(HOME) ? join(HOME, '.local/state') : null;
}

/** FNV-1a. It tells one user's roots apart, and is asked for at every start: SHA-256 would take a millisecond. */
function hashOf(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, '0');
}

/**
 * Makes one of them, for this user alone.
 *
 * @throws when somebody else may have made it, or something else by its name
 */
export function createFallbackStateFolder(state: StateFolder): void {
  if (lstatSync(state.path, { throwIfNoEntry: false }) === undefined) {
    mkdirSync(state.path, { recursive: true, mode: 0o700 });
  }
  const reason = reasonAgainstPrivateFolder(state.path);
  if (reason !== null) throw new Error(reason);
  createStateFolder(state);
}

/** Why a folder in a place where others write cannot be trusted; null: it is this user's alone. */
function reasonAgainstPrivateFolder(path: string): string | null {
  // Names under /tmp can be guessed: another user can have put a symlink or a folder there first.
  const stats = lstatSync(path);
  if (!stats.isDirectory()) return 'it is not a folder';
  if (!isOurs(stats)) return `it belongs to another user (uid ${stats.uid})`;
  if (canOthersWrite(stats)) return `others can write to it (mode ${octal(stats.mode)})`;
  return reasonAgainstParent(dirname(path));
}

/** Whoever can rename a folder can put another one in its place. */
function reasonAgainstParent(path: string): string | null {
  const stats = statSync(path);
  if (!isOurs(stats) && stats.uid !== 0) return `${path} belongs to another user (uid ${stats.uid})`;
  const isSticky = (stats.mode & 0o1000) !== 0;
  if (isSticky || !canOthersWrite(stats)) return null;
  return `others can replace files in ${path} (mode ${octal(stats.mode)})`;
}

function isOurs({ uid }: Stats): boolean {
  return uid === process.getuid?.();
}

/** With a umask of 002 a user's own group can, in which is nobody else. */
function canOthersWrite({ uid, gid, mode }: Stats): boolean {
  return (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && !isPrivateGroup(gid, uid));
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

/**
 * Once what it kept is in the log it is of no more use. Its cache goes with it: what is noted there of what was told is
 * over, and would be news if it came again.
 */
export function removeEmptyFallback(state: StateFolder): void {
  const [, ...all] = listStateFolders(state);
  const folders = all.filter((path) => path !== state.cache);
  try {
    if (folders.some((path) => readdirSync(path).length > 0)) return;
    // That of the locks first: a pass that has just come has put something in there, and keeps the rest.
    for (const path of folders) rmdirSync(path);
    rmSync(state.cache, { recursive: true, force: true });
    rmSync(join(state.path, '.gitignore'), { force: true });
    rmdirSync(state.path);
  } catch {
    // Somebody uses it, or has taken a part of it away.
  }
}
