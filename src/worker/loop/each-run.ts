import type { Script } from '../../discovery/script.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { leaveNote } from '../../execution/secret-notes.ts';
import { findSecrets, type Masker, maskSecrets, type NotedSecret, noteSecret } from '../../execution/secrets.ts';
import { isReplaced } from '../../execution/start/start-failure.ts';
import { GRACE_MS } from '../../execution/watch/terminate.ts';
import type { Runner } from '../../settings/settings.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { readStartTicks } from '../../system/process/identity.ts';
import type { Invocation } from '../invocation/invocation.ts';
import type { RunProgress } from '../record/run-recorder.ts';

/** All that the process of any run is started with. */
export function requestOfEach({ runner, stop }: Invocation, script: Script, state: StateFolder) {
  return {
    script,
    root: runner.root,
    state,
    probePath: runner.probePath,
    graceMs: GRACE_MS,
    maxOutputBytes: script.options.maxOutputBytes ?? runner.settings.maxOutputBytes,
    variables: runner.settings.env,
    environment: runner.environment,
    masker: maskerOf(runner, state),
    stop: stop.signal,
    kill: stop.kill,
  };
}

interface Known {
  readonly noted: readonly NotedSecret[];
  readonly masker: Masker;
}

const known = new WeakMap<Runner, Known>();

/** @param state where the run has its files: there is noted, before its process starts, how its secrets are found */
function maskerOf(runner: Runner, state: StateFolder): Masker {
  const { noted, masker } = known.get(runner) ?? findOut(runner);
  leaveNote(state, noted);
  return masker;
}

/** Looking for secrets in the environment is too dear for each run. */
function findOut(runner: Runner): Known {
  const secrets = findSecrets(runner.settings, runner.environment);
  const found = { noted: secrets.map(noteSecret), masker: maskSecrets(secrets) };
  known.set(runner, found);
  return found;
}

/** What is given back for it is due at once, and would not begin then either, again and again. */
export function stopIfReplaced({ stop }: Invocation, { reason }: RunEnd): void {
  if (reason !== null && isReplaced(reason)) stop.startNothing(reason);
}

/** @param refusal why the log has refused the end as it was; null: it has not */
export function asRecorded(end: RunEnd, refusal: string | null = null): RunEnd {
  return refusal === null ? end : { ...end, outcome: 'failed', reason: refusal, error: null };
}

interface ProgressReport {
  start(pid: number): void;
  /** Takes the most memory that the run was seen with so far. */
  sample(maxRssBytes: number): void;
  /** To be awaited once the run has ended. */
  settle(): Promise<void>;
}

/** Most scripts are over before anybody could ask who they are; a write right after a fork is dear. */
const RECORD_AFTER_MS = 100;

/** How old the last memory seen may be of a run that dies with its runner. */
const REPEAT_MS = 10_000;

/** Writes down which process a run is, for the report and for whoever finds it without its runner. */
export function createProgressReport(
  write: (progress: RunProgress) => Promise<void>,
  onFailure: (error: unknown) => void,
): ProgressReport {
  let timer: NodeJS.Timeout | undefined;
  let recorded: Promise<unknown> = Promise.resolve();
  let maxRssBytes: number | null = null;
  let written: number | null = null;
  const record = (pid: number, startTicks: number | null): void => {
    written = maxRssBytes;
    // Nobody waits for it before the script's end: unhandled until then, it would end the runner.
    recorded = recorded.then(() => write({ pid, startTicks, maxRssBytes })).catch(onFailure);
  };
  return {
    start: (pid) => {
      // A Node that hung before its first line is started a second time.
      clearTimeout(timer);
      timer = setTimeout(() => {
        const startTicks = readStartTicks(pid);
        record(pid, startTicks);
        timer = setInterval(() => written !== maxRssBytes && record(pid, startTicks), REPEAT_MS);
      }, RECORD_AFTER_MS);
    },
    sample: (bytes) => {
      maxRssBytes = bytes;
    },
    settle: async () => {
      clearTimeout(timer);
      await recorded;
    },
  };
}
