import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** One whole process with all that it started. */
export interface Figures {
  readonly wallMs: number;
  readonly cpuMs: number;
}

export interface Command {
  readonly command: readonly string[];
  readonly cwd: string;
}

/** Bash's own `time` counts the children that were waited for, to the millisecond. */
const TIMED = 'TIMEFORMAT="%R %U %S"; time "$@" >/dev/null 2>&1';

/** Runs the command once, to its end; it must succeed, or its figures would mean nothing. */
export async function timeOnce(command: Command): Promise<Figures> {
  const times = await runTimed(command);
  const [wall = 0, user = 0, system = 0] = times.trim().split(' ').map(Number);
  return { wallMs: wall * 1000, cpuMs: (user + system) * 1000 };
}

/**
 * The peak of the process itself without its children. A look at it takes time: never while it is timed.
 *
 * @param good exit codes with which its figure counts
 */
export async function peakBytesOf(command: Command, good: readonly number[] = [0]): Promise<number> {
  let peak = Number.NaN;
  await runTimed(
    command,
    (shellPid) => {
      const timer = setInterval(() => {
        peak = readPeakOfChild(shellPid) ?? peak;
      }, 1);
      return () => clearInterval(timer);
    },
    good,
  );
  return peak;
}

/** The most that a process has in memory during this work. */
export async function peakDuring(pid: number, work: () => Promise<void>): Promise<number> {
  // Its peak so far is forgotten.
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  await work();
  return readStatus(pid, 'VmHWM')[0] ?? Number.NaN;
}

async function runTimed(
  { command, cwd }: Command,
  watch = (_pid: number) => () => {},
  good: readonly number[] = [0],
): Promise<string> {
  const shell = spawn('bash', ['-c', TIMED, 'bash', ...command], {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let times = '';
  shell.stderr.setEncoding('utf8').on('data', (text: string) => (times += text));
  const unwatch = watch(shell.pid as number);
  const exitCode = await new Promise((resolve) => shell.on('close', resolve));
  unwatch();
  if (!good.includes(exitCode as number)) throw new Error(`it ended with ${exitCode}: ${command.join(' ')}`);
  return times;
}

function readPeakOfChild(shellPid: number): number | null {
  const [child] = childrenOf(shellPid);
  return child === undefined ? null : (readStatus(child, 'VmHWM')[0] ?? null);
}

/** What the process has in memory now; nothing once it has ended. */
export function rssOf(pid: number): readonly number[] {
  return readStatus(pid, 'VmRSS');
}

function readStatus(pid: number, field: string): readonly number[] {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const kilobytes = new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1];
    return kilobytes === undefined ? [] : [Number(kilobytes) * 1024];
  } catch {
    return [];
  }
}

/** Each thread of a process lists the children that it has started. */
export function childrenOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
      const children = readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1');
      return children.trim().split(' ').filter(Boolean).map(Number);
    });
  } catch {
    return [];
  }
}

/** Each contender once per round, in turn, so that a drift of the machine hits all of them. */
export async function alternate<Name extends string, Figure>(
  rounds: number,
  contenders: Readonly<Record<Name, () => Promise<Figure>>>,
): Promise<Readonly<Record<Name, readonly Figure[]>>> {
  const names = Object.keys(contenders) as Name[];
  const figures = {} as Record<Name, Figure[]>;
  for (const name of names) figures[name] = [];
  for (let round = 0; round < rounds; round += 1) {
    for (const name of names) figures[name].push(await contenders[name]());
  }
  return figures;
}

/** Of each contender. */
export function mediansOf(rounds: Readonly<Record<string, readonly Figures[]>>): ReadonlyMap<string, Figures> {
  const middle = (figures: readonly Figures[], of: keyof Figures) => median(figures.map((each) => each[of]));
  const entries = Object.entries(rounds);
  return new Map(entries.map(([name, all]) => [name, { wallMs: middle(all, 'wallMs'), cpuMs: middle(all, 'cpuMs') }]));
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? Number.NaN;
}
