import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** One whole process with all it started: seconds of wall and CPU time, and its own peak memory. */
export interface Figures {
  readonly wallMs: number;
  readonly cpuMs: number;
  /** Of the process itself, without its children; null where it was over before it was seen. */
  readonly peakRssBytes: number | null;
}

export interface Contender {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Bash's own `time` counts the children that were waited for, to the millisecond. */
const TIMED = 'TIMEFORMAT="%R %U %S"; time "$@" >/dev/null 2>&1';
const POLL_MS = 2;

/** Runs the command once, to its end; it must succeed, or its figures would mean nothing. */
export async function measureOnce({ name, command, cwd, env }: Contender): Promise<Figures> {
  const shell = spawn('bash', ['-c', TIMED, 'bash', ...command], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let times = '';
  shell.stderr.setEncoding('utf8').on('data', (text: string) => (times += text));
  let peakRssBytes: number | null = null;
  const poll = setInterval(() => {
    peakRssBytes = readPeakOfChild(shell.pid as number) ?? peakRssBytes;
  }, POLL_MS);
  const exitCode = await new Promise((resolve) => shell.on('close', resolve));
  clearInterval(poll);
  if (exitCode !== 0) throw new Error(`${name} ended with ${exitCode}: ${command.join(' ')}`);
  const [wall = 0, user = 0, system = 0] = times.trim().split(' ').map(Number);
  return { wallMs: wall * 1000, cpuMs: (user + system) * 1000, peakRssBytes };
}

/** Each contender once per round, in turn, so that a drift of the machine hits all of them. */
export async function measureRounds(
  contenders: readonly Contender[],
  rounds: number,
): Promise<ReadonlyMap<string, readonly Figures[]>> {
  const figures = new Map<string, Figures[]>(contenders.map(({ name }) => [name, []]));
  for (const contender of contenders) await measureOnce(contender);
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of contenders) {
      figures.get(contender.name)?.push(await measureOnce(contender));
    }
  }
  return figures;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function readPeakOfChild(shellPid: number): number | null {
  try {
    const children = readFileSync(`/proc/${shellPid}/task/${shellPid}/children`, 'latin1');
    const status = readFileSync(`/proc/${children.trim().split(' ')[0]}/status`, 'latin1');
    const kilobytes = /^VmHWM:\s+(\d+)/m.exec(status)?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) * 1024;
  } catch {
    return null;
  }
}
