import { spawn } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { describeCures, describeNeverRun, findNeverRun } from '../../discovery/not-run.ts';
import type { Script } from '../../discovery/script.ts';
import { critical, type Found, note, ok, warning } from '../../monitor/finding.ts';
import { resumeCommandOf, wordsOfPaused } from '../../queue/pauses.ts';
import { guessPeriodName } from '../../schedule/period.ts';
import { findReaders, isOfRunner } from '../../settings/env-files.ts';
import { findSettingsFile } from '../../settings/load.ts';
import { defaultSettings, type GivenVariables, nothingGiven } from '../../settings/settings.ts';
import { isUnreleased, SCHEMA_VERSION } from '../../store/schema.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { hasSpool, listUnreadableSpoolFiles } from '../../store/spool/files.ts';
import { APPLICATION_ID } from '../../store/sqlite/file.ts';
import type { SchemaFlaw } from '../../store/sqlite/migrations.ts';
import { type Fault, UsageError } from '../../system/base/errors.ts';
import { countOf, formatBytes } from '../../system/base/format.ts';
import { capitalized } from '../../system/base/text.ts';
import { listNames, printableName, shellWord } from '../../system/base/values.ts';
import { readHolderFile } from '../../system/lock/holder.ts';
import { distrustedFallbacksOf, trustedFallbacksOf } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import { findQuarantined } from '../place.ts';
import type { LogFile } from './log-file.ts';
import {
  askProgram,
  inScratchFolder,
  mainLine,
  NO_SQLITE,
  type ProbeAnswer,
  reasonOfFailure,
  type SqliteCommand,
  sqliteCommand,
} from './probes.ts';
import { type DoctorPlace, findingOfFault, type HostCheck, listOf, unknownWithoutLog } from './site.ts';
import { findVariableFaults } from './variables.ts';

export const checkConfig: HostCheck = {
  code: 'settings',
  run: async (place) => {
    const name = findSettingsFile(place.root);
    try {
      await place.settings();
      const found = name === null ? 'none: the defaults' : `${name} is valid`;
      return [ok(found), ...describeFiles(place.root, await place.given())];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      return error.faults.map((fault) => describeWrong(fault, name ?? 'the settings'));
    }
  },
};

/** Number of variables and mode of each file; never a value. */
function describeFiles(root: string, { files }: GivenVariables): readonly Found[] {
  return files.flatMap(({ path, names }) => {
    if (names === null) return [];
    const name = relative(root, path).startsWith('..') ? path : relative(root, path);
    const mode = (statSync(path).mode & 0o7777).toString(8).padStart(4, '0');
    const ignored = names.filter(isOfRunner);
    const readers = findReaders(path);
    const cure = 'The runner reads such variables only from its caller: move them to the crontab, above its lines.';
    return [
      ok(`${name}: ${countOf(names.length - ignored.length, 'variable')}, mode ${mode}`),
      ...(readers === null ? [] : [warning(readers.found, `${capitalized(readers.cure)}.`)]),
      ...(ignored.length === 0 ? [] : [warning(`${name} sets ${listOf(ignored)}, to no effect`, cure)]),
    ];
  });
}

function describeWrong(fault: Fault | string, name: string): Found {
  // A fault of a file that others could have changed says itself how to close it.
  if (typeof fault !== 'string') return findingOfFault(fault);
  return critical(fault, `Correct it in ${name}: until then no script runs; docs/settings.md has every setting.`);
}

const SEE_LIST = '`npx folder-runner list` shows why for each of them, and how to fix it.';

export const checkJobs: HostCheck = {
  code: 'jobs',
  run: async (place) => {
    const { root, discovery } = place;
    const { tiers, unread, handlers, ignored } = await discovery();
    const neverRun = findNeverRun(root, ignored);
    const scripts = tiers.flatMap((tier) => tier.scripts);
    const all = [...scripts, ...handlers];
    const refused = all.filter(({ refusals }) => refusals.length > 0);
    const doubtful = all.filter(({ warnings }) => warnings.length > 0);
    return [
      describeCount(tiers.length, scripts.length, handlers.length),
      ...unread.map(({ reason }) => critical(reason, 'Until then nothing in it is run.')),
      ...findMisnamed(
        root,
        tiers.map(({ name }) => name),
      ),
      ...(refused.length === 0
        ? []
        : [critical(`${countOf(refused.length, 'script')} refused: ${namesOf(refused)}`, SEE_LIST)]),
      ...(doubtful.length === 0 ? [] : [warning(`probably a mistake in ${namesOf(doubtful)}`, SEE_LIST)]),
      ...(await findWithheld(place, all)),
      ...(neverRun.length === 0 ? [] : [warning(describeNeverRun(neverRun), describeCures(neverRun))]),
    ];
  },
};

/** Variables that scripts read, and do not get. */
async function findWithheld(place: DoctorPlace, scripts: readonly Script[]): Promise<readonly Found[]> {
  const settings = await place.settings().catch(() => defaultSettings);
  const given = await place.given().catch(() => nothingGiven);
  const faults = await findVariableFaults(scripts, { ...settings, given }, place.crontab);
  return faults.map(({ script, found, cure }) => warning(`${script.name} ${found}`, `${capitalized(cure)}.`));
}

function findMisnamed(root: string, tiers: readonly string[]): Found[] {
  const misnamed = tiers.flatMap((tier) => {
    const guess = guessPeriodName(tier);
    return guess === null ? [] : [{ tier, guess }];
  });
  return misnamed.map(({ tier, guess }) => {
    const isOnly = misnamed.filter((other) => other.guess === guess).length === 1;
    const cure = isOnly && !existsSync(join(root, 'jobs', guess)) ? rename(tier, guess) : moveScripts(tier, guess);
    const found = `jobs/${printableName(tier)} is not a schedule name, so cron never runs it`;
    return warning(found, `If it was meant to be ${guess}: \`${cure}\`, then \`npx folder-runner cron --install\`.`);
  });
}

function rename(tier: string, guess: string): string {
  return `mv ${shellWord(join('jobs', tier))} jobs/${guess}`;
}

/**
 * `mv` would put the folder inside an existing one, where nothing runs. A script whose name is taken stays where it is.
 */
function moveScripts(tier: string, guess: string): string {
  const folder = shellWord(join('jobs', tier));
  return `mkdir -p jobs/${guess} && mv -n ${folder}/* jobs/${guess}/ && rmdir ${folder}`;
}

function describeCount(tiers: number, scripts: number, handlers: number): Found {
  const ofQueue = handlers > 0 ? `, ${countOf(handlers, 'handler')} of queued jobs` : '';
  const count = `${countOf(scripts, 'script')} in ${countOf(tiers, 'tier')}${ofQueue}`;
  if (scripts + handlers > 0) return ok(count);
  return note(count, 'Drop a script into jobs/hourly; `npx folder-runner init` makes the folders with examples.');
}

function namesOf(scripts: readonly Script[]): string {
  return listOf(scripts.map(({ name }) => name));
}

export const checkPauses: HostCheck = {
  code: 'pauses',
  run: async ({ log, isLogUnread }) => {
    if (await isLogUnread()) return [unknownWithoutLog];
    const pauses = (await log()).facts?.pauses ?? [];
    if (pauses.length === 0) return [ok('none')];
    return pauses.map(({ name, kind, until }) => {
      const end = until === null ? 'until it is resumed' : `until ${new Date(until).toISOString()}`;
      const what = kind === 'fail-fast' ? 'fails instead of running' : 'is paused';
      return note(`${wordsOfPaused(name)} ${what} ${end}`, `\`${resumeCommandOf(name)}\` ends it.`);
    });
  },
};

export const checkLog: HostCheck = {
  code: 'log',
  run: async (place) => {
    if (isOnServer(place.env)) return await (await import('./machines.ts')).checkDatabase(place.root, place.env);
    const file = await place.logFile();
    if (file === null) return [note('none yet', 'The first pass makes it: try `npx folder-runner hourly`.')];
    const flaw = findFlaw(file);
    if (flaw !== null) return [flaw];
    const flaws = await judgeOpening(place);
    if (flaws.length > 0) return flaws;
    return [ok(describeSound(file)), ...judgeWriting(file), ...(await judgeSize(place, file)), ...judgeSchema(file)];
  },
};

function describeSound({ bytes, journalMode, schemaVersion }: LogFile): string {
  const journal = journalMode === null ? '' : `, journal ${journalMode}`;
  return `sound, ${formatBytes(bytes)}${journal}, schema ${schemaVersion}`;
}

const SET_ASIDE =
  'The next pass renames it and creates a new log. To keep the history, put a copy made by `npx folder-runner backup` in ' +
  'its place.';

function findFlaw(file: LogFile): Found | null {
  if (file.failure !== null) return describeUnread(file.failure);
  if (file.damages.length > 0) {
    return critical(`damaged: ${file.damages.join('; ').split('\n').join(' ')}`, SET_ASIDE);
  }
  if (file.bytes === 0) return critical('its file is empty, so its history is gone', SET_ASIDE);
  if (file.applicationId !== APPLICATION_ID) {
    return critical(
      '.runner/activity.db is the database of another program',
      'Move it away; the next pass makes a new log.',
    );
  }
  if (isUnreleased(file.schemaVersion)) {
    return critical(
      `made before the first release (schema ${file.schemaVersion})`,
      'Move it away; the next pass makes a new log.',
    );
  }
  if (file.schemaVersion <= SCHEMA_VERSION) return null;
  return critical(
    `written by a newer runner (schema ${file.schemaVersion}, this one knows ${SCHEMA_VERSION})`,
    'Update the package with `npm install folder-runner@latest`.',
  );
}

const OPEN_UP =
  'Make .runner and its files yours and writable (`chmod -R u+rwX .runner`); until then passes run without a log.';

function describeUnread(failure: string): Found {
  if (/not a database|malformed|corrupt/i.test(failure)) {
    return critical(`broken: ${failure}`, SET_ASIDE);
  }
  if (/locked/.test(failure)) {
    return warning(
      `locked by another process: ${failure}`,
      'Wait until backups and passes have ended; see `npx folder-runner status`.',
    );
  }
  if (failure === NO_SQLITE) {
    return warning(`could not be read: ${failure}`, 'See what sqlite says.');
  }
  return critical(`cannot be read: ${failure}`, OPEN_UP);
}

function judgeWriting({ writeFailure }: LogFile): Found[] {
  if (writeFailure === null) return [];
  return [critical(`can be read, but not be written: ${writeFailure}`, OPEN_UP)];
}

async function judgeOpening({ log }: DoctorPlace): Promise<Found[]> {
  const { failure, flaws } = await log();
  if (flaws.length > 0) return flaws.map(judgeTables);
  return failure === null ? [] : [critical(failure, 'Fix this; until then passes run without a log.')];
}

function judgeTables({ what, cure, sql }: SchemaFlaw): Found {
  const sentence = `another program has changed it: ${what}`;
  if (cure === 'new-log') return critical(sentence, SET_ASIDE);
  if (cure === 'make-again') return critical(sentence, 'The runner makes it again within two passes, if it is needed.');
  // Its maker chose the name, which must stay one word where the command is copied into a shell.
  return warning(sentence, `Remove it: \`sqlite3 .runner/activity.db '${sql.replaceAll("'", "'\\''")}'\`.`);
}

async function judgeSize({ settings }: DoctorPlace, { bytes }: LogFile): Promise<Found[]> {
  const most = (await settings().catch(() => null))?.retention.maxDatabaseBytes ?? null;
  if (most === null || bytes <= most) return [];
  return [
    note(
      `larger than the ${formatBytes(most)} that the settings allow`,
      'The next passes prune it step by step; a higher `maxDatabaseSize` keeps more.',
    ),
  ];
}

function judgeSchema({ schemaVersion }: LogFile): Found[] {
  if (schemaVersion === SCHEMA_VERSION) return [];
  return [note(`of an older runner (schema ${schemaVersion})`, 'The next pass brings it up to date.')];
}

/** In processes of their own: within one, SQLite does not ask the file system. */
const TAKE_LOCK = `
  database.exec('create table if not exists tried (at integer); begin immediate; pragma user_version = 1');
`;

const HOLD_LOCK = `${TAKE_LOCK}
  process.stdout.write('held');
  setTimeout(() => {}, 60_000);
`;

const TIMEOUT_MS = 15_000;

export const checkLocks: HostCheck = {
  code: 'locks',
  run: ({ root, state, env }) =>
    inScratchFolder(existsSync(state.path) ? state.path : root, async (folder) => [
      await tryLocks(join(folder, 'locks.db'), env),
    ]),
};

const NOT_SAFE = 'Move the root to a file system of the machine itself: here two passes can damage the log.';

/** One process gets the lock, a second one does not, a third one does once the first is killed. */
async function tryLocks(path: string, env: NodeJS.ProcessEnv): Promise<Found> {
  const request = { path, access: 'mode=rwc', env } as const;
  const hold = await sqliteCommand(HOLD_LOCK, request);
  const take = await sqliteCommand(TAKE_LOCK, request);
  if (hold === null || take === null) return describeUntried(NO_SQLITE);
  const ask = () => askProgram(take.command, { env: take.env, timeoutMs: TIMEOUT_MS });
  const holder = await holdLock(hold);
  try {
    if (holder.failure !== null) return describeUntried(holder.failure);
    const second = await ask();
    await holder.end();
    return judgeLocks(second, await ask());
  } finally {
    await holder.end();
  }
}

function judgeLocks(second: ProbeAnswer, third: ProbeAnswer): Found {
  if (second.exitCode === 0) return critical('two processes got the same lock at once', NOT_SAFE);
  if (!/database is locked/.test(second.stderr)) {
    const said = reasonOfFailure(second);
    return critical(`a second process waits for a held lock without an answer: ${said}`, NOT_SAFE);
  }
  if (third.exitCode !== 0) {
    const said = reasonOfFailure(third);
    return critical(`the lock of a process that was killed stays: ${said}`, NOT_SAFE);
  }
  return ok('work: one process at a time, and free again when it is killed');
}

function describeUntried(said: string): Found {
  if (/^\w*Error/.test(said)) return critical(`SQLite cannot lock a file here: ${said}`, NOT_SAFE);
  return warning(`could not be tried: ${said}`, 'See what sqlite, limits and memory say, then look again.');
}

interface LockHolder {
  /** Why it did not get the lock; null: it has it. */
  readonly failure: string | null;
  end(): Promise<void>;
}

async function holdLock({ command: [node, ...args], env }: SqliteCommand): Promise<LockHolder> {
  const child = spawn(node, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text;
  });
  const closed = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', () => resolve(mainLine(complaint)));
  });
  const held = new Promise<null>((resolve) => child.stdout.once('data', () => resolve(null)));
  const silence = `nothing within ${TIMEOUT_MS / 1000} s`;
  return {
    failure: await Promise.race([held, closed, setTimeout(TIMEOUT_MS, silence, { ref: false })]),
    end: async () => {
      child.kill('SIGKILL');
      await Promise.race([closed, setTimeout(TIMEOUT_MS, null, { ref: false })]);
    },
  };
}

export const checkLeftovers: HostCheck = {
  code: 'leftovers',
  run: ({ root, state }) => {
    const findings = [
      ...findBrokenLogs(state),
      ...[state, ...trustedFallbacksOf(root)].flatMap(findSpool),
      ...distrustedFallbacksOf(root).map(warnOfFallback),
      ...findDeadLocks(state),
    ];
    return findings.length > 0 ? findings : [ok('none')];
  },
};

function warnOfFallback({ path, reason }: { readonly path: string; readonly reason: string }): Found {
  return warning(
    `${path} is not read: ${reason}`,
    'If the folder and the files in its spool/ are yours, take the rights of others from it: the next pass then ' +
      'records these runs. If not, leave it: another folder is used instead.',
  );
}

function findBrokenLogs({ path }: StateFolder): Found[] {
  return findQuarantined(path).map((name) =>
    warning(
      `.runner/${name} was quarantined because it was damaged`,
      'Delete it with its -wal and -shm when you no longer need its history; `sqlite3 <file> .dump` shows its ' +
        'readable part.',
    ),
  );
}

function findSpool(state: StateFolder): Found[] {
  const unreadable = listUnreadableSpoolFiles(state).length;
  return [
    ...(hasSpool(state)
      ? [
          note(
            `runs wait in ${state.spool} to be recorded in the log`,
            'The next pass that can open the log records them.',
          ),
        ]
      : []),
    ...(unreadable > 0
      ? [
          warning(
            `${countOf(unreadable, 'file')} in ${state.spool} could not be recorded in the log`,
            'Look into the files that end in .unreadable, one line of JSON for each run, then delete them.',
          ),
        ]
      : []),
  ];
}

function findDeadLocks({ locks }: StateFolder): Found[] {
  const tiers = listNames(locks).filter((name) => name.endsWith('.lock'));
  return tiers.flatMap((name) => {
    const pid = deadHolder(join(locks, name));
    if (pid === null) return [];
    const tier = name.slice(0, -'.lock'.length);
    return [note(`the lock of ${tier} was left by pid ${pid}, which is dead`, 'The next pass takes it over.')];
  });
}

/** Only looked at: what clears a lock away is a pass that takes it. */
function deadHolder(lock: string): number | null {
  const files = listNames(lock).filter((name) => name.endsWith('.json'));
  const holders = files.map((name) => readHolderFile(join(lock, name))?.holder ?? null);
  return holders.find((holder) => holder !== null && checkLiveness(holder) === 'dead')?.pid ?? null;
}
