import { join } from 'node:path';
import { discover } from '../../discovery/discover.ts';
import type { Discovery } from '../../discovery/script.ts';
import { critical, type Finding, type Found, found, note } from '../../monitor/finding.ts';
import { loadSettings, readGivenVariables } from '../../settings/load.ts';
import { defaultSettings, type GivenVariables, type Settings } from '../../settings/settings.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import type { Fault } from '../../system/base/errors.ts';
import { capitalized } from '../../system/base/text.ts';
import { once } from '../../system/base/values.ts';
import { type StateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import { type CrontabReading, readCrontabCalls } from './crontab-calls.ts';
import { examineLogFile, type LogFile, type LogReading, readLogFacts, readServerFacts } from './log-file.ts';

/** One look at one side of the host. It changes nothing, and may throw: that is a finding, too. */
export interface HostCheck {
  readonly code: string;
  run(place: DoctorPlace): readonly Found[] | Promise<readonly Found[]>;
}

/** For what only the log says, where there is a log that could not be read. */
export const unknownWithoutLog = note('unknown: the log could not be read', 'See what log says, then look again.');

export function findingOfFault({ found, cure }: Fault): Found {
  return critical(found, capitalized(cure));
}

/** The first three names, and how many more there are. */
export function listOf(names: readonly string[]): string {
  const shown = names.slice(0, 3).join(', ');
  return names.length > 3 ? `${shown} and ${names.length - 3} more` : shown;
}

export interface PlaceRequest {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  /** The folder of the command that runs now. */
  readonly distFolder: string;
  readonly version: string;
  readonly nowMs: number;
  /** Why the command would refuse these arguments in this root; null: it accepts them. Runs nothing. */
  readonly findWrongUse: (root: string, args: readonly string[]) => Promise<string | null>;
}

/** The place that the checks examine. Facts that several checks need are read once, when the first one asks. */
export interface DoctorPlace extends PlaceRequest {
  readonly state: StateFolder;
  readonly commandPath: string;
  /** Rejects with all that is wrong with them. */
  settings(): Promise<Settings>;
  /** The variables of the site's files. Rejects with all that is wrong with these. */
  given(): Promise<GivenVariables>;
  /** By the settings, or by the defaults where these are wrong. */
  discovery(): Promise<Discovery>;
  crontab(): Promise<CrontabReading>;
  logFile(): Promise<LogFile | null>;
  log(): Promise<LogReading>;
  /** There is a log, and what is in it is not known. */
  isLogUnread(): Promise<boolean>;
}

function openPlace(request: PlaceRequest): DoctorPlace {
  const { root, env, distFolder } = request;
  const state = stateFolderOf(root);
  const settings = once(() => loadSettings(root, env));
  const logFile = once(() => examineLogFile(state, env));
  const isShared = isOnServer(env);
  const log = once(async () =>
    isShared ? readServerFacts(state, request.nowMs) : readLogFacts(state, await logFile(), request.nowMs),
  );
  return {
    ...request,
    state,
    commandPath: join(distFolder, 'bin.cjs'),
    settings,
    given: once(async () => readGivenVariables(root, await settings())),
    discovery: once(async () => discover(root, await settings().catch(() => defaultSettings))),
    crontab: once(() => readCrontabCalls(root, env)),
    logFile,
    log,
    isLogUnread: async () => {
      if (!isShared && (await logFile()) === null) return false;
      const { facts, failure } = await log();
      return facts === null && (!isShared || failure !== null);
    },
  };
}

/** Looks at the place the runner runs in, one check after another; changes nothing. */
export async function* examinePlace(request: PlaceRequest, checks: readonly HostCheck[]): AsyncGenerator<Finding> {
  const place = openPlace(request);
  for (const check of checks) {
    for (const finding of await runCheck(check, place)) yield { code: check.code, ...finding };
  }
}

/** The checks have time limits of their own; this one is for what nobody thought of. */
const LONGEST_CHECK_MS = 120_000;

async function runCheck(check: HostCheck, place: DoctorPlace): Promise<readonly Found[]> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_, reject) => {
    const error = new Error(`no answer within ${LONGEST_CHECK_MS / 1000} s`);
    timer = setTimeout(() => reject(error), LONGEST_CHECK_MS);
  });
  try {
    return await Promise.race([(async () => check.run(place))(), tooLong]);
  } catch (error) {
    return [couldNotCheck(error)];
  } finally {
    clearTimeout(timer);
  }
}

function couldNotCheck(error: unknown): Found {
  const message = error instanceof Error ? error.message : String(error);
  const hint = 'Fix what the other lines report, then look again.';
  return found('unknown', `could not be checked: ${message.split('\n', 1)[0]}`, hint);
}
