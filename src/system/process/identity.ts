import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { UsageError } from '../base/errors.ts';

/** Tells one process from every other, across reused pids, reboots and machines. */
export interface ProcessIdentity {
  /** The name of its machine. */
  readonly host: string;
  /**
   * Changes with each boot; null without `/proc`. In a container, where pids have another meaning than outside, the
   * container follows: `<boot> pid:[4026532201]`.
   */
  readonly bootId: string | null;
  readonly pid: number;
  /** When the process started, in clock ticks since boot; null without `/proc`. */
  readonly startTicks: number | null;
}

/** The environment variable that names a machine whose host name changes or is not unique. */
const NAME_VARIABLE = 'RUNNER_HOST';

/**
 * The name of this machine for other machines and for `@host` tags.
 *
 * @throws {UsageError} if the environment gives it an invalid name
 */
export function machineName(): string {
  const name = process.env[NAME_VARIABLE];
  if (name === undefined || name === '') return hostname();
  if (/^[\w.-]{1,64}$/.test(name)) return name;
  const shown = JSON.stringify(name.slice(0, 80));
  throw new UsageError(
    `${NAME_VARIABLE} is ${shown}: expected 1 to 64 letters, digits, dots, dashes and underscores, such as web-1.`,
  );
}

export const livenesses = ['alive', 'dead', 'on-another-host'] as const;
export type Liveness = (typeof livenesses)[number];

export function identifyProcess(pid: number): ProcessIdentity {
  return { host: machineName(), bootId: readBootId(), pid, startTicks: readStartTicks(pid) };
}

/** Whether this very process still runs. A process of another host or container cannot be seen from here. */
export function checkLiveness(process: ProcessIdentity): Liveness {
  const place = readBootId();
  if (process.host !== machineName()) return 'on-another-host';
  if (differs(bootOf(process.bootId), bootOf(place))) return 'dead';
  if (differs(process.bootId, place)) return 'on-another-host';
  if (!existsProcess(process.pid) || isZombie(process.pid)) return 'dead';
  return differs(process.startTicks, readStartTicks(process.pid)) ? 'dead' : 'alive';
}

/** Whether the machine of that name has rebooted since; another machine of the same name looks alike. */
export function isOfAnotherBoot({ bootId }: Pick<ProcessIdentity, 'bootId'>): boolean {
  return differs(bootOf(bootId), bootOf(readBootId()));
}

const UNKNOWN = 'x';
const ownedForm = /^([a-z]+)\.(.+)\.(\d+)\.(\d+|x)\.\d+$/;

/** `<kind>.<host>.<pid>.<start ticks>.<number>`: a file name that says that the file is this process's. */
export function nameOwnFile(kind: string, number: number): string {
  const startTicks = readStartTicks(process.pid) ?? UNKNOWN;
  return `${kind}.${machineName()}.${process.pid}.${startTicks}.${number}`;
}

/** The process that a file name of this kind names; null: the name is not of this kind. */
export function ownerOf(name: string, kind: string): Omit<ProcessIdentity, 'bootId'> | null {
  const [, found, host, pid, startTicks] = ownedForm.exec(name) ?? [];
  if (host === undefined || found !== kind) return null;
  return { host, pid: Number(pid), startTicks: startTicks === UNKNOWN ? null : Number(startTicks) };
}

/** Whether the file's process has died here; a process of another host cannot be seen from here. */
export function isOwnerDead(name: string, kind: string): boolean {
  const owner = ownerOf(name, kind);
  if (owner === null || owner.host !== machineName()) return false;
  return checkLiveness({ ...owner, bootId: readBootId() }) === 'dead';
}

/** Whether the start time can confirm the process; its pid alone may belong to another process by now. */
export function isStartKnown({ pid, startTicks }: ProcessIdentity): boolean {
  return startTicks !== null && readStartTicks(pid) !== null;
}

export function isSameProcess(one: ProcessIdentity, other: ProcessIdentity): boolean {
  return (
    one.host === other.host &&
    one.bootId === other.bootId &&
    one.pid === other.pid &&
    one.startTicks === other.startTicks
  );
}

/** Start of the process in clock ticks since boot; null if it is gone or unknown. */
export function readStartTicks(pid: number): number | null {
  const fields = readStatFields(pid);
  return fields === null ? null : Number(fields[19]);
}

/** USER_HZ, the unit of `/proc/<pid>/stat`, is 100 on every Linux that Node runs on. */
export const MS_PER_TICK = 10;

/** How long a process has been running, in milliseconds, even if the clock was set; null if unknown. */
export function readAgeMs(pid: number): number | null {
  const startTicks = readStartTicks(pid);
  if (startTicks === null) return null;
  const ageMs = uptime() * 1000 - startTicks * MS_PER_TICK;
  // In some containers uptime and start ticks do not count from the same moment.
  return ageMs >= 0 ? ageMs : null;
}

/** The fields of `/proc/<pid>/stat` from the third one (state) on. */
export function readStatFields(pid: number): string[] | null {
  return readStat(pid)?.fields ?? null;
}

/**
 * The program's name and the fields after it. The name itself may contain spaces and parentheses, so only the text
 * after the last parenthesis can be split.
 */
function readStat(pid: number): { readonly name: string; readonly fields: string[] } | null {
  if (!isProcOurs()) return null;
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const end = text.lastIndexOf(')');
    return { name: text.slice(text.indexOf('(') + 1, end), fields: text.slice(end + 2).split(' ') };
  } catch {
    return null;
  }
}

let procIsOurs: boolean | null = null;

/** In a container `/proc` may be the machine's, where our pids belong to other processes. */
function isProcOurs(): boolean {
  procIsOurs ??= readOwnPid() === process.pid;
  return procIsOurs;
}

function readOwnPid(): number | null {
  try {
    return Number(readlinkSync('/proc/self'));
  } catch {
    return null;
  }
}

/** The boot id of the machine, without the container; null without `/proc`. */
export function bootOfMachine(): string | null {
  return bootOf(readBootId());
}

function readBootId(): string | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    return [boot, ...readContainer()].join(' ');
  } catch {
    return null;
  }
}

/** The pid namespace of this process, unless it is the machine's. */
function readContainer(): string[] {
  try {
    return [readlinkSync('/proc/self/ns/pid')].filter((pids) => pids !== MACHINE_PIDS);
  } catch {
    return [];
  }
}

/** The pid namespace of the machine itself (PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h). */
const MACHINE_PIDS = 'pid:[4026531836]';

export const bootOf = (bootId: string | null): string | null => bootId?.split(' pid:')[0] ?? null;

/** A dead process whose exit code nobody has read yet: a signal still reaches it. */
function isZombie(pid: number): boolean {
  return readStatFields(pid)?.[0] === 'Z';
}

/** Only two known values can differ; an unknown one proves nothing. */
function differs<T>(one: T | null, other: T | null): boolean {
  return one !== null && other !== null && one !== other;
}

function existsProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** `cron`, `crond`, `anacron`, `fcron`, `CRON` … */
const scheduler = /crond?$|^(?:supercronic|atd)$/i;

/**
 * Whether a person made this call although its output goes to no terminal: in `runner hourly | cat`, a script, a
 * command over ssh. An unclear case, such as a hidden `/proc`, counts as called by a scheduler. `RUNNER_CALLED_BY`
 * overrides the guess: the dashboard sets it when a person asks for a run, and so may a scheduler that calls over ssh.
 */
export function isCalledByHand({ RUNNER_CALLED_BY, SSH_CONNECTION }: NodeJS.ProcessEnv): boolean {
  if (RUNNER_CALLED_BY === 'person') return true;
  const own = readStat(process.pid);
  if (own === null || RUNNER_CALLED_BY === 'cron') return false;
  // Field 1 is the parent's pid, field 4 the terminal.
  const hasTerminal = own.fields[4] !== '0';
  for (let pid = Number(own.fields[1]); pid > 1; ) {
    const parent = readStat(pid);
    if (parent === null) return hasTerminal || SSH_CONNECTION !== undefined;
    if (scheduler.test(parent.name)) return false;
    if (parent.name.startsWith('sshd')) return true;
    pid = Number(parent.fields[1]);
  }
  return hasTerminal;
}
