import type { Script } from '../../discovery/script.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { leaveNote } from '../../execution/secret-notes.ts';
import { findSecrets, type Masker, maskSecrets, type NotedSecret, noteSecret } from '../../execution/secrets.ts';
import { findReplaced } from '../../execution/start/start-failure.ts';
import { GRACE_MS } from '../../execution/watch/watch.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import { givenTo, type Runner } from '../../settings/settings.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { readStartTicks } from '../../system/process/identity.ts';
import type { Invocation, StopRequest } from '../invocation/invocation.ts';
import type { RunProgress, WhoStops } from './recorder.ts';

/** Takes jobs and runs them one after the other: scripts of a pass, or jobs of the queue. */
export interface Executor<Turn> {
  /** The next turn, claimed by this worker; null: nothing more starts. */
  next(): Promise<Turn | null>;
  /** Runs a turn to its end, which may be recorded in one commit with the next claim. */
  run(turn: Turn): Promise<void>;
  /** Call it when nothing runs or will run any more: gives back claims that have not begun. */
  giveBack(): Promise<void>;
}

/** The pass or worker that executors work for. */
interface Employer {
  readonly name: 'pass' | 'worker';
  readonly stop: StopRequest;
  /** Used to start its children. */
  readonly runner: Pick<Runner, 'probePath'>;
  /** Called at once with the error that breaks an executor off. */
  readonly onBroken?: (error: unknown) => void;
}

/**
 * Lets executors work side by side until none has anything left to do. If one breaks off, because the log or the disk
 * fails, nothing more starts, and the others finish their jobs.
 *
 * @returns the errors of executors that broke off, the first one first; empty: all have come to their end
 */
export async function runExecutors<Turn>(
  executors: readonly Executor<Turn>[],
  { name, stop, runner, onBroken }: Employer,
): Promise<readonly unknown[]> {
  const errors: unknown[] = [];
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      errors.push(error);
      stop.startNothing(`the ${name} was aborted: ${String(error)}`);
      onBroken?.(error);
    }
  };
  const next = async (executor: Executor<Turn>): Promise<Turn | null> => {
    const replaced = findReplaced(runner.probePath);
    if (replaced !== null) stop.startNothing(replaced.failure, 'replaced');
    return await executor.next();
  };
  const runOne = async (executor: Executor<Turn>): Promise<void> => {
    await attempt(async () => {
      for (let turn = await next(executor); turn !== null; turn = await next(executor)) await executor.run(turn);
    });
    await attempt(() => executor.giveBack());
  };
  await Promise.all(executors.map(runOne));
  return errors;
}

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
    given: givenTo(runner.settings.given, script.tier),
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

/** The end as the log has it, which may have refused it, or knows that somebody had asked for it. */
export function asRecorded(end: RunEnd, { refusal = null, stopped }: Pick<Settled, 'refusal' | 'stopped'>): RunEnd {
  if (refusal !== null) return { ...end, outcome: 'failed', reason: refusal, error: null };
  return stopped === undefined ? end : { ...end, outcome: 'stopped', reason: stopped };
}

/** Most scripts end before anybody could ask about them, and a write right after a fork is slow. */
const RECORD_AFTER_MS = 100;

/** How old the last recorded memory of a run may be if it dies with its runner, in milliseconds. */
const REPEAT_MS = 10_000;

/** How often it is looked whether somebody wants the end of a run, in milliseconds; in a fleet at each sign of life. */
const STOP_LOOK_MS = 1_000;

function everySecond(look: () => void): () => void {
  const timer = setInterval(look, STOP_LOOK_MS);
  return () => clearInterval(timer);
}

/**
 * Records the process of a run, for the report and for the recovery of a run without its runner. From then on it stops
 * the run once somebody asks for that.
 */
export function createProgressReport(
  { heartbeat }: Pick<Invocation, 'heartbeat'>,
  write: (progress: RunProgress) => Promise<WhoStops | null>,
  onFailure: (error: unknown) => void,
) {
  const repeat = heartbeat?.atBeats ?? everySecond;
  let timer: NodeJS.Timeout | undefined;
  let stop: ((by: string) => void) | null = null;
  let stopLooking: (() => void) | null = null;
  let recorded: Promise<unknown> = Promise.resolve();
  let maxRssBytes: number | null = null;
  let written: number | null = null;
  const record = (pid: number, startTicks: number | null): void => {
    written = maxRssBytes;
    // This promise is not awaited before the script ends: until then, an unhandled rejection would end the runner.
    recorded = recorded
      .then(() => write({ pid, startTicks, maxRssBytes }))
      .then((whoStops) => {
        if (whoStops !== null && stop !== null) stopLooking ??= repeat(() => look(whoStops));
      })
      .catch(onFailure);
  };
  const look = async (whoStops: WhoStops): Promise<void> => {
    // The next look makes up for a failed one.
    const by = await whoStops().catch(() => null);
    if (by !== null) stop?.(by);
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
    /** Takes what ends the run in somebody's name. */
    watch: (stopRun: (by: string) => void): void => {
      stop = stopRun;
    },
    /** Takes the highest memory of the run so far. */
    sample: (bytes: number): void => {
      maxRssBytes = bytes;
    },
    /** Await it once the run has ended. */
    settle: async (): Promise<void> => {
      clearTimeout(timer);
      stop = null;
      stopLooking?.();
      await recorded;
    },
  };
}
