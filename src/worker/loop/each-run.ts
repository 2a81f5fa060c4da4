import type { Script } from '../../discovery/script.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { leaveNote } from '../../execution/secret-notes.ts';
import { findSecrets, type Masker, maskSecrets, type NotedSecret, noteSecret } from '../../execution/secrets.ts';
import { GRACE_MS } from '../../execution/watch/watch.ts';
import type { Runner } from '../../settings/settings.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { readStartTicks } from '../../system/process/identity.ts';
import type { Invocation } from '../invocation/invocation.ts';
import type { RunProgress } from './recorder.ts';

/** The parts of a request that the process of any run needs. */
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

/** @param state the folder of the run's files; before its process starts, a note about its secrets is left there */
function maskerOf(runner: Runner, state: StateFolder): Masker {
  const { noted, masker } = known.get(runner) ?? findOut(runner);
  leaveNote(state, noted);
  return masker;
}

/** A search for secrets in the environment for each run would be too slow. */
function findOut(runner: Runner): Known {
  const secrets = findSecrets(runner.settings, runner.environment);
  const found = { noted: secrets.map(noteSecret), masker: maskSecrets(secrets) };
  known.set(runner, found);
  return found;
}

/**
 * Starts nothing more: a job given back for a replaced package is due at once, and would fail to begin again and again.
 */
export function stopIfReplaced({ stop }: Invocation, { isReplaced, reason }: RunEnd): void {
  if (isReplaced) stop.startNothing(reason ?? '', 'replaced');
}

/** @param refusal why the log refused the original end; null: it did not */
export function asRecorded(end: RunEnd, refusal: string | null = null): RunEnd {
  return refusal === null ? end : { ...end, outcome: 'failed', reason: refusal, error: null };
}

/** Most scripts end before anybody could ask about them, and a write right after a fork is slow. */
const RECORD_AFTER_MS = 100;

/** How old the last recorded memory of a run may be if it dies with its runner, in milliseconds. */
const REPEAT_MS = 10_000;

/** Records the process of a run, for the report and for the recovery of a run without its runner. */
export function createProgressReport(
  write: (progress: RunProgress) => Promise<void>,
  onFailure: (error: unknown) => void,
) {
  let timer: NodeJS.Timeout | undefined;
  let recorded: Promise<unknown> = Promise.resolve();
  let maxRssBytes: number | null = null;
  let written: number | null = null;
  const record = (pid: number, startTicks: number | null): void => {
    written = maxRssBytes;
    // This promise is not awaited before the script ends: until then, an unhandled rejection would end the runner.
    recorded = recorded.then(() => write({ pid, startTicks, maxRssBytes })).catch(onFailure);
  };
  return {
    start: (pid: number): void => {
      // A Node that hung before its first line is started a second time.
      clearTimeout(timer);
      timer = setTimeout(() => {
        const startTicks = readStartTicks(pid);
        record(pid, startTicks);
        timer = setInterval(() => written !== maxRssBytes && record(pid, startTicks), REPEAT_MS);
      }, RECORD_AFTER_MS);
    },
    /** Takes the highest memory of the run so far. */
    sample: (bytes: number): void => {
      maxRssBytes = bytes;
    },
    /** Await it once the run has ended. */
    settle: async (): Promise<void> => {
      clearTimeout(timer);
      await recorded;
    },
  };
}
