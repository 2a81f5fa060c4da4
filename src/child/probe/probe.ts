import { closeSync, readSync, renameSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { abortOnTermination, findDefault } from '../call-handler.ts';
import type { JobContext } from '../contexts.ts';
import { HOLD_FD, type Lingering, NOT_BEGUN, PROBE_VARIABLE, type ProbeOptions, SIGN_OF_LIFE_FD } from '../contract.ts';
import { openLog } from '../counts.ts';
import { noteRejection, recordEnd, writeResult } from '../record-end.ts';
import { installTypeScript } from '../typescript/hooks.ts';
import { describeUncalled } from './uncalled.ts';

/**
 * Passes on the script's exports once it has been evaluated. The script is Node's own entry point, so
 * `import.meta.main`, `require.main` and `process.argv` are as usual; this only joins it.
 */
function joinEntryPoint(scriptPath: string, use: (exported: unknown) => Promise<void>): void {
  setImmediate(() => {
    const main = process.mainModule;
    // The script threw, and a handler of its own went on. An import would run it a second time.
    if (main !== undefined) return main.loaded ? use(main.exports) : undefined;
    // This is the entry point's own module, not a second one. If it fails, Node reports the error itself.
    return import(pathToFileURL(scriptPath).href).then(use, () => {});
  });
}

function createContext({ script, facts }: ProbeOptions): JobContext {
  let signal: AbortSignal | undefined;
  return {
    script,
    args: process.argv.slice(2),
    // A script, unlike a handler, is always run for a time.
    scheduledFor: new Date(facts.scheduledFor as number),
    latenessMs: facts.latenessMs,
    attempt: facts.attempt,
    lastSuccess: facts.lastSuccess === null ? null : new Date(facts.lastSuccess),
    previouslyCrashed: facts.previouslyCrashed,
    // Only a script that reads the signal takes over the duty to end; any other dies of SIGTERM as usual.
    get signal() {
      signal ??= abortOnTermination().signal;
      return signal;
    },
    log: openLog(),
  };
}

/** The progress of a script's own code. */
interface CodeState {
  /** Why the process must not end by itself: its function has not ended. Null: it has, or there is none. */
  unsettled: string | null;
  /** Returns what keeps the process running. */
  findLingering: () => Lingering | null;
  /** An export that nothing calls; null: none. */
  uncalled: string | null;
}

/** Calls the script's default function once the script has been evaluated. */
function callDefault(options: ProbeOptions, state: CodeState): void {
  const { scriptPath, resultPath } = options;
  joinEntryPoint(scriptPath, async (exported) => {
    const run = findDefault<JobContext>(exported);
    if (run === null) {
      state.uncalled = describeUncalled(exported, scriptPath);
      state.findLingering = watchLingering(resultPath, fileEnd);
      return;
    }
    state.unsettled = "the promise of the script's default function never settled";
    const startedAt = performance.now();
    try {
      await run(createContext(options));
    } catch (thrown) {
      noteRejection(thrown);
      throw thrown;
    }
    state.unsettled = null;
    state.findLingering = watchLingering(resultPath, { isFunction: true, afterMs: performance.now() - startedAt });
  });
}

const fileEnd = { isFunction: false, afterMs: null };

/** A script without exports that runs this long may be waiting for something. */
const LASTING_MS = 100;

function noticeFileEnd({ scriptPath, resultPath }: ProbeOptions, state: CodeState): void {
  const join = async (): Promise<void> => {
    state.findLingering = watchLingering(resultPath, fileEnd);
  };
  setTimeout(() => joinEntryPoint(scriptPath, join), LASTING_MS).unref();
}

/** Most scripts have ended by this time. */
const FIRST_LOOK_MS = 20;
const LONGEST_GAP_MS = 60_000;

/**
 * Records what keeps a process running after its script's code has ended, and again when that changes: a runner that
 * ends it at its time limit can no longer ask it.
 *
 * @returns a function that gives the last record; null: none
 */
function watchLingering(resultPath: string, end: Omit<Lingering, 'resources'>): () => Lingering | null {
  let last: Lingering | null = null;
  const look = (delayMs: number): void => {
    const lingering = { ...end, resources: [...new Set(process.getActiveResourcesInfo())].slice(0, MOST_KINDS) };
    if (last?.resources.join() !== lingering.resources.join()) writeResult(resultPath, { lingering });
    last = lingering;
    lookAfter(Math.min(delayMs * 2, LONGEST_GAP_MS));
  };
  const lookAfter = (delayMs: number): void => {
    setTimeout(look, delayMs, delayMs).unref();
  };
  lookAfter(FIRST_LOOK_MS);
  return () => last;
}

/** Node knows about thirty kinds. */
const MOST_KINDS = 40;

// This is loaded into a Node script before it starts. Programs that the script starts are not affected. Workers always
// load it again but find no variable; forks inherit `execArgv`, from which it is removed.
const variable = process.env[PROBE_VARIABLE];
if (variable !== undefined) {
  delete process.env[PROBE_VARIABLE];
  forgetArgument(process.execArgv);
  const options = waitForTurn(JSON.parse(variable) as ProbeOptions);
  closeSync(SIGN_OF_LIFE_FD);
  installTypeScript(options.cacheFolder);
  join(options);
}

/**
 * A process that was started ahead waits here for its turn, before anything of its script is loaded. It ends if the
 * runner ends, or if its output file is gone: the process that removed the file relies on this one never beginning.
 */
function waitForTurn(options: ProbeOptions): ProbeOptions {
  const { hold, facts } = options;
  if (hold === undefined) return options;
  const message = Buffer.alloc(32);
  const length = readSync(HOLD_FD, message);
  if (length === 0) process.exit();
  try {
    renameSync(hold.heldOutput, hold.output);
  } catch {
    writeSync(HOLD_FD, NOT_BEGUN);
    process.exit();
  }
  closeSync(HOLD_FD);
  const latenessMs = Number(message.toString('latin1', 0, length));
  process.env.RUNNER_LATENESS_MS = String(latenessMs);
  return { ...options, facts: { ...facts, latenessMs } };
}

function join(options: ProbeOptions): void {
  const state: CodeState = { unsettled: null, findLingering: () => null, uncalled: null };
  if (options.exportsNothing) noticeFileEnd(options, state);
  else callDefault(options, state);
  recordEnd(options.resultPath, () => {
    const { unsettled, uncalled } = state;
    const lingering = state.findLingering();
    return { unsettled, ...(lingering && { lingering }), ...(uncalled !== null && { uncalled }) };
  });
}

function forgetArgument(args: string[]): void {
  const index = args.indexOf(__filename);
  if (index > 0) args.splice(index - 1, 2);
}
