import { createHash } from 'node:crypto';
import { closeSync, constants, futimesSync, lstatSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Runner } from '../../settings/settings.ts';
import { listNames } from '../../system/base/values.ts';
import { createFallbackStateFolder, fallbackStateFoldersOf, trustedFallbacksOf } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';

type Mailer = Pick<Runner, 'root' | 'state' | 'now'> & { readonly settings: Pick<Runner['settings'], 'alerts'> };

/**
 * Whether this is news to cron's mail, which has not had it for a day (`alerts.remind`). Notes beside the log that the
 * mail gets it now: the log itself may be out of order.
 *
 * @param what identifies the message: two equal ones count as one
 * @returns true if it cannot be recorded: better two mails than none
 */
export function isNewToMail({ root, state, now, settings }: Mailer, what: string): boolean {
  const note = { name: PREFIX + hashOf(what), at: now(), validMs: settings.alerts.remindMs };
  try {
    if ([state, ...trustedFallbacksOf(root)].some(({ cache }) => isValid(join(cache, note.name), note))) return false;
    if (!tryNote(state, note)) fallbackStateFoldersOf(root).some((place) => tryNote(place, note, true));
  } catch {
    // The root itself may be gone: then there is nowhere to note it.
  }
  return true;
}

/** The same of a sentence on what is wrong with the log: the numbers in it do not matter. */
export function isNewTrouble(runner: Mailer, sentence: string): boolean {
  return isNewToMail(runner, sentence.replace(numbers, '0'));
}

/** Process ids, times and sizes are other ones each time; those that names begin with, as of tiers, are no numbers. */
const numbers = /(?<![\w./])\d+(?!\d|min\b|hours\b|days\b)/g;

/** An empty file, for which a full disk mostly has room; its time is when it was told. */
interface Note {
  readonly name: string;
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly validMs: number;
}

const PREFIX = 'mailed-';

function hashOf(what: string): string {
  return createHash('sha256').update(what).digest('hex').slice(0, 16);
}

/** @returns whether it is noted there */
function tryNote(place: StateFolder, note: Note, isFallback = false): boolean {
  const { cache } = place;
  try {
    if (isFallback) createFallbackStateFolder(place);
    const others = listNames(cache).filter((name) => name.startsWith(PREFIX) && name !== note.name);
    for (const name of others) if (!isValid(join(cache, name), note)) rmSync(join(cache, name), { force: true });
    touch(join(cache, note.name), note.at);
    return true;
  } catch {
    // The next place is tried.
    return false;
  }
}

function touch(path: string, at: number): void {
  const { O_CREAT, O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = openSync(path, O_CREAT | O_WRONLY | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    futimesSync(file, at / 1000, at / 1000);
  } finally {
    closeSync(file);
  }
}

/** After a clock was set back a time may be to come: that does not count. */
function isValid(path: string, { at, validMs }: Note): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats?.isFile() === true && Math.floor(stats.mtimeMs) <= at && at - stats.mtimeMs < validMs;
}
