import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmdirSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import {
  createStateFolder,
  demandAccess,
  listStateFolders,
  type StateFolder,
  stateFolderAt,
  stateFolderOf,
} from './state-folder.ts';
import { isPrivateGroup } from './trust.ts';

/**
 * The folders for a root's state if its `.runner/` cannot be written: one under the system's temporary folder and,
 * because anybody can take that name, one in the home. The call only names them and creates nothing. They never hold a
 * log: it would be a second truth.
 */
export function fallbackStateFoldersOf(root: string): readonly StateFolder[] {
  const hash = hashOf(realpathSync.native(root));
  const temporary = join(tmpdir(), `folder-runner-${process.getuid?.() ?? 0}-${hash}`);
  const home = stateHome();
  return [temporary, ...(home === null ? [] : [join(home, `folder-runner-${hash}`)])].map((path) =>
    stateFolderAt(path),
  );
}

/** The existing fallback folders into which nobody else can have put anything. Only these are ever read. */
export function trustedFallbacksOf(root: string): readonly StateFolder[] {
  return judgeFallbacks(root).flatMap(({ state, reason }) => (reason === null ? [state] : []));
}

/** The existing fallback folders that are not read, each with the reason. */
export function distrustedFallbacksOf(root: string): readonly { readonly path: string; readonly reason: string }[] {
  return judgeFallbacks(root).flatMap(({ state: { path }, reason }) => (reason === null ? [] : [{ path, reason }]));
}

/** A folder that disappears during the check counts as missing. */
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

/** The XDG specification ignores a path that is not absolute. */
function stateHome(): string | null {
  const { XDG_STATE_HOME = '', HOME = '' } = process.env;
  if (isAbsolute(XDG_STATE_HOME)) return XDG_STATE_HOME;
  return isAbsolute(HOME) ? join(HOME, '.local/state') : null;
}

/** FNV-1a: tells the roots of one user apart. Every start needs it, and SHA-256 would take a millisecond. */
function hashOf(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, '0');
}

/**
 * Creates a fallback folder for this user alone.
 *
 * @throws if somebody else may have made it, or something else has its name
 */
export function createFallbackStateFolder(state: StateFolder): void {
  if (lstatSync(state.path, { throwIfNoEntry: false }) === undefined) {
    mkdirSync(state.path, { recursive: true, mode: 0o700 });
  }
  const reason = reasonAgainstPrivateFolder(state.path);
  if (reason !== null) throw new Error(reason);
  createStateFolder(state);
}

/** Why a folder in a place where others can write is not trusted; null: it belongs to this user alone. */
function reasonAgainstPrivateFolder(path: string): string | null {
  // Names under /tmp can be guessed: another user may have put a symlink or a folder there first.
  const stats = lstatSync(path);
  if (!stats.isDirectory()) return 'it is not a folder';
  if (!isOurs(stats)) return `it belongs to another user (uid ${stats.uid})`;
  if (canOthersWrite(stats)) return `others can write to it (mode ${octal(stats.mode)})`;
  return reasonAgainstParent(dirname(path));
}

/** A user who can rename a folder can put another one in its place. */
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

/** With a umask of 002 the group may write, which is harmless if a user's own group contains nobody else. */
function canOthersWrite({ uid, gid, mode }: Stats): boolean {
  return (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && !isPrivateGroup(gid, uid));
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

/**
 * Removes a fallback folder once the log has all that it kept. Its cache goes, too: it notes which troubles were
 * reported. They are over, and if they came again they would be news.
 */
export function removeEmptyFallback(state: StateFolder): void {
  const [, ...all] = listStateFolders(state);
  const folders = all.filter((path) => path !== state.cache);
  try {
    if (folders.some((path) => readdirSync(path).length > 0)) return;
    // Remove the folder of the locks first: if a pass has just put something in it, this fails and the rest stays.
    for (const path of folders) rmdirSync(path);
    rmSync(state.cache, { recursive: true, force: true });
    rmSync(join(state.path, '.gitignore'), { force: true });
    rmdirSync(state.path);
  } catch {
    // Somebody uses it, or has removed a part of it.
  }
}

/**
 * The root's state folder, created and proved by writing to it; otherwise one of its fallbacks. An existing fallback
 * comes first, because another pass may be at work in it. Call it only after a failure: it costs a wait for the disk.
 *
 * @param unusable known reasons against some of these folders, by path
 * @throws {UsageError} if none can be written: then no script can run
 */
export function usableStateFolder(root: string, unusable: Readonly<Record<string, string>> = {}): StateFolder {
  refuseWithoutRoot(root);
  const reasons: string[] = [];
  const isUsable = (state: StateFolder, create: typeof createStateFolder): boolean => {
    const reason = unusable[state.path] ?? reasonAgainst(state, create);
    if (reason !== null) reasons.push(`${state.path} (${reason})`);
    return reason === null;
  };
  const state = stateFolderOf(root);
  if (isUsable(state, createStateFolder)) return state;
  const known = new Set(trustedFallbacksOf(root).map(({ path }) => path));
  const fallbacks = fallbackStateFoldersOf(root).toSorted(
    (one, other) => Number(known.has(other.path)) - Number(known.has(one.path)),
  );
  const usable = fallbacks.find((each) => isUsable(each, createFallbackStateFolder));
  if (usable !== undefined) return usable;
  throw new UsageError(
    `No script can be run, as none of these folders can be written: ${reasons.join(', ')}. ` +
      'Make one of them writable, or set TMPDIR to a folder that only you can write.',
  );
}

/** Without this check a folder would be made where nobody ever looks. */
function refuseWithoutRoot(root: string): void {
  if (existsSync(join(root, 'jobs'))) return;
  throw new UsageError(
    `${root} has no jobs folder any more: it was moved or removed meanwhile. ` +
      'Runs since then could not be recorded; call the runner at the new place.',
  );
}

function reasonAgainst(state: StateFolder, create: typeof createStateFolder): string | null {
  try {
    create(state);
    for (const path of listStateFolders(state)) demandAccess(path);
    tryWrite(state);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** If the writer dies before it removes the folder, the next reconciliation finds and removes it by this prefix. */
export const TRY_PREFIX = 'try-';

/** Enough bytes that a file system has to find a new block for them. */
const TRIED_BYTES = 64 * 1024;

/** Files of a lock, a spool and a few scripts at a time: a file system may have no inodes left. */
const TRIED_FILES = 16;

function tryWrite({ temporary }: StateFolder): void {
  const folder = mkdtempSync(join(temporary, TRY_PREFIX));
  try {
    for (let count = 1; count < TRIED_FILES; count += 1) {
      writeFileSync(join(folder, String(count)), '', { flag: 'wx', mode: 0o600 });
    }
    writeFileSync(join(folder, 'bytes'), Buffer.alloc(TRIED_BYTES, ' '), { flag: 'wx', mode: 0o600, flush: true });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
