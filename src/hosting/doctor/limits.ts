import { readFileSync } from 'node:fs';
import { askProgram } from './ask-program.ts';

/** The soft limits of this process (`ulimit`); null: none. */
export interface ProcessLimits {
  readonly processes: number | null;
  readonly addressSpaceBytes: number | null;
  readonly fileBytes: number | null;
  readonly openFiles: number | null;
  readonly cpuSeconds: number | null;
}

/** From `/proc`, else from a shell; null where neither tells. */
export async function readLimits(env: NodeJS.ProcessEnv): Promise<ProcessLimits | null> {
  return readFromProc() ?? (await askShell(env));
}

function readFromProc(): ProcessLimits | null {
  try {
    const text = readFileSync('/proc/self/limits', 'latin1');
    const soft = (name: string): number | null =>
      toNumber(new RegExp(`^${name}\\s+(\\S+)`, 'm').exec(text)?.[1]);
    return {
      processes: soft('Max processes'),
      addressSpaceBytes: soft('Max address space'),
      fileBytes: soft('Max file size'),
      openFiles: soft('Max open files'),
      cpuSeconds: soft('Max cpu time'),
    };
  } catch {
    return null;
  }
}

/** dash calls `-p` what others call `-u`. */
const QUESTION = 'ulimit -u 2>/dev/null || ulimit -p; ulimit -v; ulimit -f; ulimit -n; ulimit -t';
const FILE_BLOCK_BYTES = 512;

async function askShell(env: NodeJS.ProcessEnv): Promise<ProcessLimits | null> {
  const { exitCode, stdout } = await askProgram(['/bin/sh', '-c', QUESTION], {
    env,
    timeoutMs: 5000,
  });
  const values = stdout.trim().split('\n').map(toNumber);
  if (exitCode !== 0 || values.length !== 5) return null;
  const [processes, kilobytes, blocks, openFiles, cpuSeconds] = values as (number | null)[];
  return {
    processes: processes ?? null,
    addressSpaceBytes: times(kilobytes, 1024),
    fileBytes: times(blocks, FILE_BLOCK_BYTES),
    openFiles: openFiles ?? null,
    cpuSeconds: cpuSeconds ?? null,
  };
}

function toNumber(text: string | undefined): number | null {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
}

function times(count: number | null | undefined, factor: number): number | null {
  return count == null ? null : count * factor;
}
