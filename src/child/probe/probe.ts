import { closeSync, readSync, renameSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { abortOnTermination, findDefault } from '../call-handler.ts';
import {
  HOLD_FD,
  type Lingering,
  NOT_BEGUN,
  PROBE_VARIABLE,
  type ProbeContext,
  type ProbeOptions,
  SIGN_OF_LIFE_FD,
} from '../contract.ts';
import { openLog } from '../counts.ts';
import type { JobContext } from '../job-context.ts';
import { noteRejection, recordEnd, type Unsettled } from '../record-end.ts';
import { installTypeScript } from '../typescript/hooks.ts';
import { type CodeEnd, watchLingering } from './lingering.ts';
import { describeUncalled } from './uncalled.ts';

/**
 * Hands over what the script exports once it has been evaluated. The script is Node's own entry
 * point, so `import.meta.main`, `require.main` and `process.argv` are as ever; this only joins it.
 */
function joinEntryPoint(scriptPath: string, use: (exported: unknown) => Promise<void>): void {
  setImmediate(() => {
    const main = process.mainModule;
    // Not loaded: it threw, and a handler of its own went on. Importing would run it a second time.
    if (main !== undefined) return main.loaded ? use(main.exports) : undefined;
    // The same module as the entry point's, not a second one. If it fails, Node reports that itself.
    return import(pathToFileURL(scriptPath).href).then(use, () => {});
  });
}

function createContext(facts: ProbeContext): JobContext {
  let signal: AbortSignal | undefined;
  return {
    script: facts.script,
    args: process.argv.slice(2),
    scheduledFor: new Date(facts.scheduledFor),
    latenessMs: facts.latenessMs,
    attempt: facts.attempt,
    lastSuccess: facts.lastSuccess === null ? null : new Date(facts.lastSuccess),
    previouslyCrashed: facts.previouslyCrashed,
    // Only who asks for the signal takes over the duty to end: others die of SIGTERM as usual.
    get signal() {
      signal ??= abortOnTermination().signal;
      return signal;
    },
    log: openLog(),
  };
}

/** What becomes of a script's own code. */
interface CodeState {
  /** What was called and is still open. */
  open: Unsettled | null;
  /** Tells what keeps the process running. */
  findLingering: () => Lingering | null;
  /** What it exports for nobody. */
  uncalled: string | null;
}

/** Calls the script's default function once the script itself has been evaluated. */
function callDefault({ scriptPath, resultPath, context }: ProbeOptions, state: CodeState): void {
  joinEntryPoint(scriptPath, async (exported) => {
    const run = findDefault<JobContext>(exported);
    if (run === null) {
      state.uncalled = describeUncalled(exported, scriptPath);
      state.findLingering = watchLingering(resultPath, fileEnd);
      return;
    }
    state.open = { sentence: "the promise of the script's default function never settled" };
    const startedAt = performance.now();
    try {
      await run(createContext(context));
    } catch (thrown) {
      noteRejection(thrown);
      throw thrown;
    }
    state.open = null;
    state.findLingering = watchLingering(resultPath, { isFunction: true, afterMs: performance.now() - startedAt });
  });
}

const fileEnd: CodeEnd = { isFunction: false, afterMs: null };

/** A script without exports that goes on this long is worth a look at what it waits for. */
const LASTING_MS = 100;

function noticeFileEnd({ scriptPath, resultPath }: ProbeOptions, state: CodeState): void {
  const join = async (): Promise<void> => {
    state.findLingering = watchLingering(resultPath, fileEnd);
  };
  setTimeout(() => joinEntryPoint(scriptPath, join), LASTING_MS).unref();
}

// Loaded into a Node script before it starts. Whatever the script starts itself knows nothing of it:
// workers load it again, whatever is done here, and find no variable; forks go by `execArgv`.
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
 * A process that was started ahead stands still here, before anything of its script is loaded, until its turn
 * has come. It ends with the runner, and where its output file is gone: whoever removed that knows that it
 * never begins.
 */
function waitForTurn(options: ProbeOptions): ProbeOptions {
  const { hold, context } = options;
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
  return { ...options, context: { ...context, latenessMs } };
}

function join(options: ProbeOptions): void {
  const state: CodeState = { open: null, findLingering: () => null, uncalled: null };
  if (options.exportsNothing) noticeFileEnd(options, state);
  else callDefault(options, state);
  const findNotes = () => {
    const lingering = state.findLingering();
    return { ...(lingering && { lingering }), ...(state.uncalled !== null && { uncalled: state.uncalled }) };
  };
  recordEnd(options.resultPath, () => state.open, undefined, findNotes);
}

function forgetArgument(args: string[]): void {
  const index = args.indexOf(__filename);
  if (index > 0) args.splice(index - 1, 2);
}
