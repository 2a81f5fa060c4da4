import { renameSync, rmSync, writeFileSync } from 'node:fs';
import type { HandlerEnd, Lingering, ProbeError, ProbeResult } from './contract.ts';
import { takeCounts } from './counts.ts';
import { describeError, failure, nameSyntaxError } from './errors.ts';

/** Node's own exit code for a top-level await that never settles. */
export const UNSETTLED_EXIT_CODE = 13;

/** The state of a script, or of a handler that has a process of its own, when its process ends. */
interface EndState extends Pick<ProbeResult, 'lingering' | 'uncalled'> {
  /** Why the process must not end by itself: a call has not ended. Null: none. */
  readonly unsettled: string | null;
  /** How the handler ended; null: it has not, or this is a script. */
  readonly end?: HandlerEnd | null;
}

/** Records how the script ends, also after an uncaught error and after `process.exit()`. */
export function recordEnd(resultPath: string, readState: () => EndState): void {
  let error: ProbeError | null = null;
  process.on('uncaughtExceptionMonitor', (thrown) => {
    if (thrown instanceof SyntaxError) nameSyntaxError(thrown);
    error = describeError(hidden !== null && isStandIn(thrown) ? hidden.thrown : thrown);
  });
  process.on('exit', (code) => {
    const { unsettled, end, ...notes } = readState();
    let exitCode = code;
    const isUnsettled = code === 0 && unsettled !== null;
    if (code === UNSETTLED_EXIT_CODE) error ??= failure(UNSETTLED_AWAIT);
    if (isUnsettled) {
      error = failure(unsettled);
      exitCode = UNSETTLED_EXIT_CODE;
      process.exitCode = exitCode;
      process.stderr.write(`Error: ${unsettled}\n`);
    }
    writeResult(resultPath, {
      ...measureSelf(),
      ...takeCounts(),
      ...notes,
      ...(end ?? { error }),
      exitCode,
      ...(isUnsettled && { isUnsettled }),
    });
  });
}

const UNSETTLED_AWAIT =
  'a top-level await never settled. Did the script wait for input? Scripts have no keyboard (stdin is empty).';

/** The rejected value of a promise if it may not be an error; null: none. */
let hidden: { readonly thrown: unknown } | null = null;

/**
 * Keeps the value: Node replaces one that is not an error, or an object that prints only `#<Object>`, by its own error.
 */
export function noteRejection(thrown: unknown): void {
  hidden = { thrown };
}

function isStandIn(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_UNHANDLED_REJECTION';
}

/**
 * A full disk, or a folder that is closed by now, must not change how the script ends. Without the file the runner uses
 * its samples.
 */
export function writeResult(path: string, content: ProbeResult | { readonly lingering: Lingering }): void {
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, JSON.stringify(content), { mode: 0o600, flag: 'wx' });
    renameSync(temporary, path);
  } catch {
    try {
      rmSync(temporary, { force: true });
    } catch {
      // The folder is closed: the runner sweeps it later.
    }
  }
}

function measureSelf(): Pick<ProbeResult, 'userCpuMs' | 'systemCpuMs' | 'maxRssBytes'> {
  const usage = process.resourceUsage();
  return {
    userCpuMs: usage.userCPUTime / 1000,
    systemCpuMs: usage.systemCPUTime / 1000,
    maxRssBytes: usage.maxRSS * 1024,
  };
}
