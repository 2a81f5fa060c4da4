import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { describeError } from './describe-error.ts';
import type { ProbeError, ProbeResult } from './probe-contract.ts';

/** Node's own exit code for a top-level await that never settles. */
const UNSETTLED_EXIT_CODE = 13;

/** Writes down how the script ends: also after an uncaught error, and after `process.exit()`. */
export function recordEnd(resultPath: string, isUnsettled: () => boolean): void {
  let error: ProbeError | null = null;
  process.on('uncaughtExceptionMonitor', (thrown) => {
    error = describeError(thrown);
  });
  process.on('exit', (code) => {
    if (code === UNSETTLED_EXIT_CODE) error ??= unsettledError('a top-level await');
    const isOpen = code === 0 && isUnsettled();
    if (isOpen) {
      error = unsettledError("the promise of the script's default function");
      process.exitCode = UNSETTLED_EXIT_CODE;
      process.stderr.write(`Error: ${error.message}\n`);
    }
    write(resultPath, measure(isOpen ? UNSETTLED_EXIT_CODE : code, error));
  });
}

function unsettledError(what: string): ProbeError {
  return { name: 'Error', message: `${what} never settled`, stack: null };
}

function measure(exitCode: number, error: ProbeError | null): ProbeResult {
  const usage = process.resourceUsage();
  return {
    exitCode,
    userCpuMs: usage.userCPUTime / 1000,
    systemCpuMs: usage.systemCPUTime / 1000,
    maxRssBytes: usage.maxRSS * 1024,
    error,
  };
}

/** A full disk must not change how the script ends; without the file the runner's samples serve. */
function write(path: string, result: ProbeResult): void {
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, JSON.stringify(result), { mode: 0o600 });
    renameSync(temporary, path);
  } catch {
    rmSync(temporary, { force: true });
  }
}
