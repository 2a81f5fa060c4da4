import { accessSync, constants, statfsSync, statSync } from 'node:fs';
import { isOnServer } from '../../store/shared/which-log.ts';
import { listSpoolFiles, listUnreadableSpoolFiles } from '../../store/spool/files.ts';
import { listNames, shellWord } from '../../system/base/values.ts';
import { demandAccess, type StateFolder } from '../../system/place/state-folder.ts';
import { machineName } from '../../system/process/identity.ts';
import { defaults, FEW_FILES } from './all-well.ts';
import { type CheckFacts, type CheckResult, counted, type HealthCheck, type Wrong } from './check.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Of a fleet each machine looks at its own place, and says whose it is. */
const ofMachine = (check: HealthCheck): HealthCheck => ({
  ...check,
  run: async (facts, threshold) => {
    const result = await check.run(facts, threshold);
    if (facts.store.fleet === null) return result;
    const host = machineName();
    const wrong = result.wrong.map((each) => ({
      ...each,
      subject: `${each.subject}@${host}`,
      message: (words: Parameters<Wrong['message']>[0]) => `${host}: ${each.message(words)}`,
    }));
    return { ...result, wrong };
  },
});

/** What cannot be written where the runner writes, and what it has already lost or laid aside because of that. */
export const logUnusable = ofMachine({
  code: 'log-unusable',
  setting: 'logUnusable',
  subject: 'log',
  defaultThreshold: () => 7 * DAY_MS,
  run: (facts, threshold) => {
    const [state] = facts.states;
    return {
      wrong: [
        ...judgeWriting(state),
        ...facts.states.flatMap(judgeSpool),
        ...judgeQuarantine(state, facts, threshold),
      ].slice(0, 1),
      ok: 'the log can be read and written',
    };
  },
});

const DOCTOR = 'Run `npx folder-runner doctor`, which names the cause and the cure.';

/** Whoever only looks may not write, and that is no fault of the log. */
function judgeWriting(state: StateFolder): Wrong[] {
  if (statSync(state.path, { throwIfNoEntry: false })?.uid !== process.getuid?.()) return [];
  try {
    demandAccess(state.path);
    if (!isOnServer()) accessSync(state.database, constants.R_OK | constants.W_OK);
    return [];
  } catch (error) {
    const message = () => `the log cannot be written: ${(error as Error).message}`;
    return [{ subject: 'log', status: 'critical', message, hint: DOCTOR }];
  }
}

/** A pass takes in what lies there before it does anything else: so the log is, or was, out of order. */
function judgeSpool(state: StateFolder): Wrong[] {
  const files = listSpoolFiles(state).length;
  if (files > 0) {
    const message = () =>
      `runs of ${counted(files, 'pass', 'passes')} are not in the log yet, as it could not be written`;
    return [
      { subject: 'log', status: 'warning', message, hint: `The next pass takes them in. If they stay: ${DOCTOR}` },
    ];
  }
  const unreadable = listUnreadableSpoolFiles(state);
  if (unreadable.length === 0) return [];
  const message = () =>
    `${counted(unreadable.length, 'file')} of runs that were recorded without the log cannot be read`;
  const hint =
    `Look at ${shellWord(state.spool)}, and delete the files that end in .unreadable when you no ` +
    'longer need them.';
  return [{ subject: 'log', status: 'warning', message, hint }];
}

/** By its name, which tells in UTC when that was. */
const quarantined = /^activity\.db\.broken-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)[^-]*$/;

function judgeQuarantine({ path }: StateFolder, { nowMs }: CheckFacts, forMs: number): Wrong[] {
  const times = listNames(path).flatMap((name) => readTime(name) ?? []);
  const ago = nowMs - Math.max(...times);
  if (ago > forMs) return [];
  return [
    {
      subject: 'log',
      status: 'warning',
      message: ({ lasting }) => `the log was damaged ${lasting(ago)} ago and renamed; a new one was created`,
      hint:
        `Its data can perhaps be saved: docs/json.md says how. Then delete ` +
        `${shellWord(path)}/activity.db.broken-*.`,
    },
  ];
}

function readTime(name: string): number | null {
  const [, year, month, day, hour, minute, second] = quarantined.exec(name) ?? [];
  if (year === undefined) return null;
  return Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
}

/** Fewer files that can still be made are almost none. */
const LEAST_FILES = 100;

export const diskFull = ofMachine({
  code: 'disk-full',
  setting: 'diskFull',
  subject: 'disk',
  defaultThreshold: () => defaults.diskFull,
  run: ({ states: [{ path }] }, threshold) => {
    const { bavail, bsize, files, ffree } = statfsSync(path);
    const free = bavail * bsize;
    const critical = Math.floor(threshold / 5);
    // Some file systems have no fixed number of files: then the total is 0.
    const left = files === 0 ? Number.POSITIVE_INFINITY : ffree;
    const result: CheckResult = {
      wrong: [],
      ok: 'there is enough room on the disk',
      figures: [{ label: 'disk_free', value: free, unit: 'B', warning: threshold, critical, isLow: true }],
    };
    const hint =
      'Delete files that are not needed, or set a shorter `retention` in the settings, which prunes the log.';
    const only = (message: Wrong['message'], isCritical: boolean): CheckResult => ({
      ...result,
      wrong: [{ subject: 'disk', status: isCritical ? 'critical' : 'warning', message, hint }],
    });
    if (free < threshold)
      return only(({ roughly }) => `only ${roughly(free)} free on the disk of ${path}`, free < critical);
    if (left >= FEW_FILES) return result;
    return only(
      () => `only ${counted(left, 'more file')} can be made on the disk of ${path} (inodes)`,
      left < LEAST_FILES,
    );
  },
});

export const alertsUndelivered: HealthCheck = {
  code: 'alerts-undelivered',
  setting: 'alertsUndelivered',
  subject: 'alerts',
  defaultThreshold: () => defaults.alertsUndelivered,
  run: async ({ store, nowMs }, threshold) => {
    const waiting = (await store.deliveries.undelivered()).filter(({ createdAt }) => nowMs - createdAt >= threshold);
    const [oldest] = waiting;
    if (oldest === undefined) return { wrong: [], ok: 'all messages were delivered' };
    const channels = [...new Set(waiting.map(({ channel }) => channel))].join(', ');
    const why = oldest.reason === null ? '' : `: ${oldest.reason}`;
    return {
      wrong: [
        {
          subject: 'alerts',
          status: 'warning',
          message: ({ lasting }) =>
            `${counted(waiting.length, 'message')} to ${channels} not delivered ` +
            `for ${lasting(nowMs - oldest.createdAt)}${why}`,
          hint: 'Run `npx folder-runner alert test`, which sends one message to each channel and tells what it answers.',
        },
      ],
      ok: '',
    };
  },
};
