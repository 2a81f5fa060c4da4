import { countOf, sizeOf, timeOf } from './amounts.ts';
import { type Check, type Finding, note, ok, problem, warning } from './finding.ts';
import { type ProcessLimits, readLimits } from './limits.ts';
import { listProcesses } from './processes.ts';

const GIGABYTE = 1024 ** 3;

/** A runner and one Node script have 11 threads each, and Linux counts threads. */
const THREADS_OF_A_PASS = 24;

export const checkLimits: Check = {
  name: 'limits',
  run: async ({ env }) => {
    const limits = await readLimits(env);
    if (limits === null) return [note('unknown: neither /proc nor the shell tells them')];
    const findings = [
      judgeProcesses(limits),
      judgeAddressSpace(limits),
      judgeFileSize(limits),
      judgeOpenFiles(limits),
      judgeCpuTime(limits),
    ].filter((finding) => finding !== null);
    return findings.length > 0 ? findings : [ok(describeLimits(limits))];
  },
};

function describeLimits({ processes, openFiles }: ProcessLimits): string {
  const said = (count: number | null): string => count?.toLocaleString('en') ?? 'any number of';
  return `${said(processes)} processes, ${said(openFiles)} open files, no other that matters`;
}

/** Near the limit Node does not fail at its start: it hangs. */
function judgeProcesses({ processes }: ProcessLimits): Finding | null {
  // The kernel does not hold root to it.
  if (processes === null || process.getuid?.() === 0) return null;
  const own = listProcesses().filter(({ uid }) => uid === process.getuid?.());
  const threads = own.reduce((sum, each) => sum + each.threads, 0);
  const free = processes - threads;
  const found = `${countOf(processes, 'process', 'processes')} and threads allowed, ${threads} in use now`;
  if (free < THREADS_OF_A_PASS) {
    return problem(
      `${found}: Node hangs or fails at its start where fewer than ${THREADS_OF_A_PASS} are free`,
      'End what is not needed, keep `concurrency` at 1, or ask the host for a higher limit of processes.',
    );
  }
  if (free >= 3 * THREADS_OF_A_PASS) return null;
  return note(
    found,
    'Keep `concurrency` at 1; `limits: { maxProcesses }` in the settings lets a pass wait.',
  );
}

function judgeAddressSpace({ addressSpaceBytes: bytes }: ProcessLimits): Finding | null {
  if (bytes === null || bytes >= 4 * GIGABYTE) return null;
  return warning(
    `virtual memory is limited to ${sizeOf(bytes)}: Node 24 needs 1.2GB to start, and fetch and WebAssembly more`,
    'Ask the host to lift the limit of virtual memory (`ulimit -v`), which says little about real use.',
  );
}

function judgeFileSize({ fileBytes: bytes }: ProcessLimits): Finding | null {
  if (bytes === null || bytes >= GIGABYTE) return null;
  return warning(
    `no file may be larger than ${sizeOf(bytes)}, the activity log included`,
    `Set \`retention: { maxDatabaseSize: '${Math.max(1, Math.floor(bytes / 2 / 1024 ** 2))}mb' }\` in the settings.`,
  );
}

function judgeOpenFiles({ openFiles }: ProcessLimits): Finding | null {
  if (openFiles === null || openFiles >= 128) return null;
  return warning(
    `only ${openFiles} files may be open at once`,
    'Raise it with `ulimit -n 1024` before the command in the crontab line, or ask the host.',
  );
}

function judgeCpuTime({ cpuSeconds }: ProcessLimits): Finding | null {
  if (cpuSeconds === null) return null;
  return warning(
    `a process is ended after ${timeOf(cpuSeconds * 1000)} of CPU time`,
    'Split long scripts into parts; `@retries 1` runs one again that was ended.',
  );
}
