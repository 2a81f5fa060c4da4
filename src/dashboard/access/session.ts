import { createHmac, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../../system/base/errors.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { isSame } from './tokens.ts';

/** Contents of a session cookie. */
export interface Session {
  /** The token that it was opened with; 0: the key that `runner web` has printed. */
  readonly tokenId: number;
  /** UTC epoch milliseconds. */
  readonly expiresAt: number;
}

/** Signs and checks sessions with a key that only this user can read. */
export interface Sessions {
  /** @param hash of the token: one of another log may have the same number */
  open(session: Session, hash: string): string;
  /** Null: it is none, or its time is over. Its signature is yet to be checked, as that needs the token. */
  read(cookie: string, now: number): Session | null;
  isSigned(cookie: string, hash: string): boolean;
  /** Ends one whose signature was checked before its time, for as long as this process lives. */
  end(cookie: string, now: number): void;
  /** The CSRF token that a page sends with changes. Pass null for the owner without a session. */
  csrfOf(cookie: string | null): string;
}

/** `<token id>.<seconds>.<random>.<signature>` */
const form = /^(\d{1,15})\.(\d{1,12})\.[\w-]{16}\.[\w-]{43}$/;

/** @param keepsKey whether sessions go on after a new start, where `state` has room for their key */
export function createSessions(state: StateFolder, keepsKey: boolean): Sessions {
  const ownCsrf = randomBytes(KEY_BYTES).toString('base64url');
  let key: Buffer | null = keepsKey ? null : randomBytes(KEY_BYTES);
  const sign = (text: string): string => {
    key ??= readKey(state);
    return createHmac('sha256', key).update(text).digest('base64url');
  };
  // A live one is never forgotten; how many there can be limits how often one may log in.
  const ended = new Map<string, number>();
  const signatureOf = (body: string, hash: string) => sign(`session ${body} ${hash}`);
  return {
    open: ({ tokenId, expiresAt }, hash) => {
      const body = `${tokenId}.${Math.floor(expiresAt / 1_000)}.${randomBytes(12).toString('base64url')}`;
      return `${body}.${signatureOf(body, hash)}`;
    },
    read: (cookie, now) => {
      const [, id, seconds] = form.exec(cookie) ?? [];
      const session = { tokenId: Number(id), expiresAt: Number(seconds) * 1_000 };
      return id !== undefined && session.expiresAt > now && !ended.has(cookie) ? session : null;
    },
    isSigned: (cookie, hash) => {
      const [, body = '', signature = ''] = /^(.*)\.([^.]*)$/.exec(cookie) ?? [];
      return isSame(signature, signatureOf(body, hash));
    },
    end: (cookie, now) => {
      for (const [each, expiresAt] of ended) if (expiresAt <= now) ended.delete(each);
      const [, , seconds = '0'] = form.exec(cookie) ?? [];
      ended.set(cookie, Number(seconds) * 1_000);
    },
    csrfOf: (cookie) => (cookie === null ? ownCsrf : sign(`csrf ${cookie}`)),
  };
}

const KEY_BYTES = 32;

/** Kept beside the log, not in it: who has a copy of the log can sign nothing. */
function readKey(state: StateFolder): Buffer {
  const fresh = randomBytes(KEY_BYTES);
  // Looking at a site makes nothing in it; without a log there are no tokens either.
  if (!existsSync(state.path)) return fresh;
  const path = join(state.path, 'web.key');
  try {
    return readSound(path) ?? makeKey(path, fresh);
  } catch (error) {
    // It holds for as long as this process: sessions end with it.
    if (['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT', 'ELOOP'].includes(errorCode(error))) return fresh;
    throw error;
  }
}

/** Null: there is none, or one that others may know. */
function readSound(path: string): Buffer | null {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
  try {
    const { mode, uid } = fstatSync(file);
    const isPrivate = uid === process.geteuid?.() && (mode & 0o077) === 0;
    const key = readFileSync(file);
    return isPrivate && key.length === KEY_BYTES ? key : null;
  } finally {
    closeSync(file);
  }
}

/** Whole or not at all; of two that make it at once, both have the first one's. */
function makeKey(path: string, key: Buffer): Buffer {
  const temporary = `${path}.${process.pid}`;
  rmSync(temporary, { force: true });
  writeFileSync(temporary, key, { mode: 0o600, flag: 'wx' });
  try {
    linkSync(temporary, path);
    return key;
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    const sound = readSound(path);
    if (sound !== null) return sound;
    renameSync(temporary, path);
    return key;
  } finally {
    rmSync(temporary, { force: true });
  }
}
