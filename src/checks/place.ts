import { accessSync, constants, statfsSync, statSync } from 'node:fs';
import { critical, found, warning } from '../monitor/finding.ts';
import { isOnServer } from '../store/shared/which-log.ts';
import { listSpoolFiles, listUnreadableSpoolFiles } from '../store/spool/files.ts';
import { countOf, formatSpan } from '../system/base/format.ts';
import { compareBytes, DAY_MS, HOUR_MS, listNames, shellWord } from '../system/base/values.ts';
import { demandAccess, type StateFolder } from '../system/place/state-folder.ts';
import type { CheckFacts, HealthCheck, Wrong } from './check.ts';

/** Faults of writing: folders and files that cannot be written, and what was lost or quarantined for that reason. */
const logUnusable: HealthCheck = {
  code: 'log-unusable',
  where: 'log',
  isOwn: true,
  defaultThreshold: () => 7 * DAY_MS,
  run: (facts, threshold) => {
    const [state] = facts.states;
    const wrong = [
      ...judgeWriting(state),
      ...facts.states.flatMap(judgeSpool),
      ...judgeQuarantine(state, facts, threshold),
    ];
    return { wrong: wrong.slice(0, 1), ok: 'the log can be read and written' };
  },
};

const DOCTOR = 'Run `npx folder-runner doctor`, which names the cause and the cure.';

/** A user who only looks may not write, and that is no fault of the log. */
function judgeWriting(state: StateFolder): Wrong[] {
  if (statSync(state.path, { throwIfNoEntry: false })?.uid !== process.getuid?.()) return [];
  try {
    demandAccess(state.path);
    if (!isOnServer()) accessSync(state.database, constants.R_OK | constants.W_OK);
    return [];
  } catch (error) {
    return [critical(`the log cannot be written: ${(error as Error).message}`, DOCTOR)];
  }
}

/** A pass takes in what lies there before it does anything else: so the log is, or was, out of order. */
function judgeSpool(state: StateFolder): Wrong[] {
  const files = listSpoolFiles(state).length;
  if (files > 0) {
    const passes = countOf(files, 'pass', 'passes');
    const message = `runs of ${passes} are not in the log yet, as it could not be written`;
    return [warning(message, `The next pass takes them in. If they stay: ${DOCTOR}`)];
  }
  const unreadable = listUnreadableSpoolFiles(state).length;
  if (unreadable === 0) return [];
  const hint =
    `Look at ${shellWord(state.spool)}, and delete the files that end in .unreadable when you no longer need ` +
    'them.';
  const message = `${countOf(unreadable, 'file')} of runs that were recorded without the log cannot be read`;
  return [warning(message, hint)];
}

/** Logs that were damaged and renamed, by the names of their files, without what belongs to them. */
export function findQuarantined(folder: string): string[] {
  const isLog = (name: string) => name.startsWith('activity.db.broken-') && !/-(?:wal|shm|journal)$/.test(name);
  return listNames(folder).filter(isLog).toSorted(compareBytes);
}

/** A name of such a file, which tells in UTC when it was renamed. */
const quarantined = /^activity\.db\.broken-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)/;

function judgeQuarantine({ path }: StateFolder, { nowMs }: CheckFacts, forMs: number): Wrong[] {
  const times = findQuarantined(path).flatMap((name) => readTime(name) ?? []);
  const ago = nowMs - Math.max(...times);
  if (ago > forMs) return [];
  const hint = `Its data can perhaps be saved: docs/json.md says how. Then delete ${shellWord(path)}/activity.db.broken-*.`;
  return [warning(`the log was damaged ${formatSpan(ago)} ago and renamed; a new one was created`, hint)];
}

function readTime(name: string): number | null {
  const [, year, month, day, hour, minute, second] = quarantined.exec(name) ?? [];
  if (year === undefined) return null;
  return Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
}

/** Default of the setting `diskFull`, in bytes. */
export const ENOUGH_BYTES = 100 * 1024 ** 2;

/** The room on a file system. */
export interface Room {
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** How many files can still be made. */
  readonly files: number;
  /** Whether there is too little of either; null: there is enough. */
  readonly lacksBytes: 'warning' | 'critical' | null;
  readonly lacksFiles: 'warning' | 'critical' | null;
}

/** @param enoughBytes fewer free bytes are too few, and a fifth of them is critical */
export function readRoom(folder: string, enoughBytes: number): Room {
  const { bavail, blocks, bsize, files: all, ffree } = statfsSync(folder);
  const freeBytes = bavail * bsize;
  // Some file systems have no fixed number of files: then the total is 0.
  const files = all === 0 ? Number.POSITIVE_INFINITY : ffree;
  const judge = (rest: number, enough: number, least: number) =>
    rest >= enough ? null : rest < least ? 'critical' : 'warning';
  return {
    ...{ freeBytes, totalBytes: blocks * bsize, files },
    lacksBytes: judge(freeBytes, enoughBytes, leastBytes(enoughBytes)),
    lacksFiles: judge(files, 1_000, 100),
  };
}

const leastBytes = (enoughBytes: number): number => Math.floor(enoughBytes / 5);

export const MAKE_ROOM =
  'Delete files that are not needed, or set a shorter `retention` in the settings, which prunes the log.';

const diskFull: HealthCheck = {
  code: 'disk-full',
  where: 'disk',
  isOwn: true,
  defaultThreshold: () => ENOUGH_BYTES,
  run: ({ states: [{ path }] }, threshold) => {
    const { freeBytes, files, lacksBytes, lacksFiles } = readRoom(path, threshold);
    const limits = { warning: threshold, critical: leastBytes(threshold), isLow: true } as const;
    return {
      ok: 'there is enough room on the disk',
      wrong:
        lacksBytes !== null
          ? [found(lacksBytes, `only ${roughly(freeBytes)} free on the disk of ${path}`, MAKE_ROOM)]
          : lacksFiles !== null
            ? [
                found(
                  lacksFiles,
                  `only ${countOf(files, 'more file')} can be made on the disk of ${path} (inodes)`,
                  MAKE_ROOM,
                ),
              ]
            : [],
      figures: [{ label: 'disk_free', value: freeBytes, unit: 'B', ...limits }],
    };
  },
};

/** `512 MB`, `12 GB`: rounded down. */
function roughly(bytes: number): string {
  const megabytes = bytes / 1024 ** 2;
  return megabytes < 10 * 1024 ? `${Math.floor(megabytes)} MB` : `${Math.floor(megabytes / 1024)} GB`;
}

const alertsUndelivered: HealthCheck = {
  code: 'alerts-undelivered',
  where: 'alerts',
  defaultThreshold: () => HOUR_MS,
  run: async ({ store, nowMs, present }, threshold) => {
    const all = (await present()).undelivered ? await store.deliveries.undelivered() : [];
    const waiting = all.filter(({ createdAt }) => nowMs - createdAt >= threshold);
    const ok = 'all messages were delivered';
    const [oldest] = waiting;
    if (oldest === undefined) return { ok };
    const channels = [...new Set(waiting.map(({ channel }) => channel))].join(', ');
    const why = oldest.reason === null ? '' : `: ${oldest.reason}`;
    const message =
      `${countOf(waiting.length, 'message')} to ${channels} not delivered ` +
      `for ${formatSpan(nowMs - oldest.createdAt)}${why}`;
    const hint =
      'Run `npx folder-runner alert test`, which sends one message to each channel and tells what it answers.';
    return { ok, wrong: [warning(message, hint)] };
  },
};

export const placeChecks: readonly HealthCheck[] = [logUnusable, diskFull, alertsUndelivered];
