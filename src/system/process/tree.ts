import { readdirSync, readFileSync } from 'node:fs';
import { errorCode } from '../base/errors.ts';
import { readStatFields } from './identity.ts';

/** Resources that a process and its living descendants have used so far. */
export interface TreeUsage {
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
  /** Present resident memory of all of them. */
  readonly rssBytes: number;
  /** The largest peak of a single process. */
  readonly peakRssBytes: number;
  /** False: no process has waited yet, or used as much CPU time as a slow machine needs to load a program. */
  readonly isLoaded: boolean;
}

/** USER_HZ, the unit of `/proc/<pid>/stat`, is 100 on every Linux that Node runs on. */
const MS_PER_TICK = 10;

const LOADING_TICKS = 1;

/** Less than any program uses once it runs: it is seen between `exec` and its first instruction. */
const LEAST_BYTES = 256 * 1024;

/** Null without `/proc`, or if the process is gone or not yet there. */
export function readTreeUsage(pid: number): TreeUsage | null {
  return readUsage(listTree(pid));
}

/** Sums up what these processes use. */
export function readUsage(pids: readonly number[]): TreeUsage | null {
  const usages = pids.flatMap((pid) => readProcessUsage(pid) ?? []);
  const usage = usages.length === 0 ? null : usages.reduce(addUsage);
  return usage === null || usage.peakRssBytes < LEAST_BYTES ? null : usage;
}

/** The process and its living descendants; only the process itself if the kernel does not list children. */
export function listTree(pid: number): number[] {
  return [pid, ...listChildren(pid).flatMap(listTree)];
}

function listChildren(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
}

function readProcessUsage(pid: number): TreeUsage | null {
  const stat = readStatFields(pid);
  const memory = readMemory(pid);
  if (stat === null || memory === null) return null;
  // 11 to 14: utime, stime, and the same of the children it has waited for.
  const ticks = (index: number): number => Number(stat[index]);
  return {
    userCpuMs: (ticks(11) + ticks(13)) * MS_PER_TICK,
    systemCpuMs: (ticks(12) + ticks(14)) * MS_PER_TICK,
    isLoaded: stat[0] === 'S' || ticks(11) + ticks(12) > LOADING_TICKS,
    ...memory,
  };
}

function readMemory(pid: number): Pick<TreeUsage, 'rssBytes' | 'peakRssBytes'> | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const rssBytes = readKilobytes(status, 'VmRSS');
    const peakRssBytes = readKilobytes(status, 'VmHWM');
    return rssBytes === null || peakRssBytes === null ? null : { rssBytes, peakRssBytes };
  } catch {
    return null;
  }
}

function readKilobytes(status: string, field: string): number | null {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status);
  return match === null ? null : Number(match[1]) * 1024;
}

function addUsage(one: TreeUsage, other: TreeUsage): TreeUsage {
  return {
    userCpuMs: one.userCpuMs + other.userCpuMs,
    systemCpuMs: one.systemCpuMs + other.systemCpuMs,
    rssBytes: one.rssBytes + other.rssBytes,
    peakRssBytes: Math.max(one.peakRssBytes, other.peakRssBytes),
    isLoaded: one.isLoaded || other.isLoaded,
  };
}

interface Listed {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
}

/**
 * A process, all processes of its group or session, and the descendants of all of these. This includes processes whose
 * parent has ended, which the tree of children lacks, and excludes those that have ended. It looks once at each process
 * of the machine: about 20 µs each.
 *
 * @returns empty without `/proc`, or if no process is left
 */
export function listGroup(leader: number): number[] {
  const all = listPids().flatMap((pid) => readListed(pid) ?? []);
  const isOwn = ({ pid, group, session }: Listed): boolean => [pid, group, session].includes(leader);
  const members = new Set(all.filter(isOwn).map(({ pid }) => pid));
  for (let before = -1; before !== members.size; ) {
    before = members.size;
    for (const { pid, parent } of all) if (members.has(parent)) members.add(pid);
  }
  return [...members];
}

function readListed(pid: number): Listed | null {
  const [state, parent, group, session] = readStatFields(pid) ?? [];
  if (state === undefined || state === 'Z' || state === 'X') return null;
  return { pid, parent: Number(parent), group: Number(group), session: Number(session) };
}

/**
 * All visible processes, mostly in order of their start. If the host hides those of others: the user's own. Empty
 * without `/proc`.
 */
export function listPids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/**
 * The living processes that started after another one with all of these variables (`NAME=value`), wherever in the tree
 * they are now. Pids grow until they start over: a process that got a small pid since then is missed.
 */
export function listStartedWith(before: number, variables: readonly string[]): number[] {
  if (variables.length === 0) return [];
  return listPids().filter((pid) => {
    if (pid <= before) return false;
    const found = readVariables(pid);
    return variables.every((variable) => found.includes(variable));
  });
}

/** The environment that a process started with, as `NAME=value`; [''] if it has ended or is another user's. */
export function readVariables(pid: number): readonly string[] {
  return readText(pid, 'environ', 'utf8').split('\0');
}

/** The first 15 bytes of the program's name; null: no such process. */
export function readProcessName(pid: number): string | null {
  return readText(pid, 'comm', 'utf8').trimEnd() || null;
}

/**
 * A text that changes whenever a process makes progress: by CPU time, to the nanosecond if the kernel tells it, or by
 * reading and writing.
 *
 * @returns null without `/proc`, or if the process is gone
 */
export function readProgress(pid: number): string | null {
  const stat = readStatFields(pid);
  if (stat === null) return null;
  const [state] = stat;
  // The process is on its way, however much a throttled processor or disk slows it down: no two looks are the same.
  if (state === 'R' || state === 'D') return `${state} ${performance.now()}`;
  return [stat[11], stat[12], readText(pid, 'schedstat'), readText(pid, 'io')].join(' ');
}

function readText(pid: number, file: string, encoding: BufferEncoding = 'latin1'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, encoding);
  } catch {
    return '';
  }
}

/** Signals the group that a process leads, if there is one. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    // EPERM: the rest of the group runs as another user, as after `exec sudo`.
    if (!['ESRCH', 'EPERM'].includes(errorCode(error))) throw error;
  }
}
