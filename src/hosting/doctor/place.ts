import { join } from 'node:path';
import { loadSettings } from '../../config/load-settings.ts';
import { defaultSettings, type Settings } from '../../config/settings.ts';
import { type StateFolder, stateFolderOf } from '../../config/state-folder.ts';
import { discover } from '../../discovery/discover.ts';
import type { Discovery } from '../../discovery/script.ts';
import { type CrontabCalls, readCrontabCalls } from './crontab-calls.ts';
import { type LogReading, readLogFacts } from './log-facts.ts';
import { examineLogFile, type LogFile } from './log-file.ts';

export interface PlaceRequest {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  /** The folder of the command that runs now. */
  readonly distFolder: string;
  readonly version: string;
  readonly nowMs: number;
  /** What the command would refuse of these arguments in this root; null: nothing. Nothing is run. */
  readonly findWrongUse: (root: string, args: readonly string[]) => Promise<string | null>;
}

/** What the checks look at. What several of them need is read once, when the first one asks. */
export interface DoctorPlace extends PlaceRequest {
  readonly state: StateFolder;
  readonly commandPath: string;
  /** Rejects with all that is wrong with them. */
  settings(): Promise<Settings>;
  /** By the settings, or by the defaults where these are wrong. */
  discovery(): Promise<Discovery>;
  crontab(): CrontabCalls;
  logFile(): Promise<LogFile | null>;
  log(): Promise<LogReading>;
  /** There is a log, and what is in it is not known. */
  isLogUnread(): Promise<boolean>;
}

export function openPlace(request: PlaceRequest): DoctorPlace {
  const { root, env, distFolder } = request;
  const state = stateFolderOf(root);
  const settings = once(() => loadSettings(root, env));
  const logFile = once(() => examineLogFile(state, env));
  const log = once(async () => readLogFacts(state, await logFile(), request.nowMs));
  return {
    ...request,
    state,
    commandPath: join(distFolder, 'bin.cjs'),
    settings,
    discovery: once(async () => discover(root, await settings().catch(() => defaultSettings))),
    crontab: once(() => readCrontabCalls(root, env)),
    logFile,
    log,
    isLogUnread: async () => (await logFile()) !== null && (await log()).facts === null,
  };
}

function once<T>(read: () => T): () => T {
  let kept: { readonly value: T } | undefined;
  return () => {
    kept ??= { value: read() };
    return kept.value;
  };
}
