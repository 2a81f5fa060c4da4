import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { UsageError } from '../base/errors.ts';

/** Tells one process from every other, across reused pids, reboots and machines. */
export interface ProcessIdentity {
  /** The name of its machine. */
  readonly host: string;
  /**
   * Changes with each boot; null without `/proc`. In a container, where a pid means something else
   * than outside, followed by which one: `<boot> pid:[4026532201]`.
   */
  readonly bootId: string | null;
  readonly pid: number;
  /** When the process started, in clock ticks since boot; null without `/proc`. */
  readonly startTicks: number | null;
}

/** The variable that names a machine, where its host name does not tell it from others, or changes. */
const NAME_VARIABLE = 'RUNNER_HOST';

/**
 * The name of this machine, by which others know it, and `@host` tags mean it.
 *
 * @throws {UsageError} if the environment gives it one that cannot be
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

export type Liveness = 'alive' | 'dead' | 'on-another-host';

export function identifyProcess(pid: number): ProcessIdentity {
  return { host: machineName(), bootId: readBootId(), pid, startTicks: readStartTicks(pid) };
}

/** Whether that very process still runs. Another host's or container's can't be seen from here. */
export function checkLiveness(process: ProcessIdentity): Liveness {
  const place = readBootId();
  if (process.host !== machineName()) return 'on-another-host';
  if (differs(bootOf(process.bootId), bootOf(place))) return 'dead';
  if (differs(process.bootId, place)) return 'on-another-host';
  if (!existsProcess(process.pid) || isZombie(process.pid)) return 'dead';
  return differs(process.startTicks, readStartTicks(process.pid)) ? 'dead' : 'alive';
}

/** Whether the machine of that name was started anew since; or another one has the same name. */
export function isOfAnotherBoot({ bootId }: Pick<ProcessIdentity, 'bootId'>): boolean {
  return differs(bootOf(bootId), bootOf(readBootId()));
}

const UNKNOWN = 'x';
const ownedForm = /^([a-z]+)\.(.+)\.(\d+)\.(\d+|x)\.\d+$/;

/** `<kind>.<host>.<pid>.<when that started>.<number>`: a name that tells that a file is this process's. */
export function nameOwnFile(kind: string, number: number): string {
  const startTicks = readStartTicks(process.pid) ?? UNKNOWN;
  return `${kind}.${machineName()}.${process.pid}.${startTicks}.${number}`;
}

/** Whose file this is; null: it is none of this kind. */
export function ownerOf(name: string, kind: string): Omit<ProcessIdentity, 'bootId'> | null {
  const [, found, host, pid, startTicks] = ownedForm.exec(name) ?? [];
  if (host === undefined || found !== kind) return null;
  return { host, pid: Number(pid), startTicks: startTicks === UNKNOWN ? null : Number(startTicks) };
}

/** Whether the file is that of a process which has died here; another host's cannot be seen from here. */
export function isOwnerDead(name: string, kind: string): boolean {
  const owner = ownerOf(name, kind);
  if (owner === null || owner.host !== machineName()) return false;
  return checkLiveness({ ...owner, bootId: readBootId() }) === 'dead';
}

/** Whether more speaks for it being alive than its pid, which may be another process's by now. */
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

/** When the process started, in clock ticks since boot; null where it is gone or unknown. */
export function readStartTicks(pid: number): number | null {
  const fields = readStatFields(pid);
  return fields === null ? null : Number(fields[19]);
}

/** USER_HZ, the unit of `/proc/<pid>/stat`, is 100 on every Linux that Node runs on. */
const MS_PER_TICK = 10;

/** For how long a process has been running, whatever was done to the clock; null where it is unknown. */
export function readAgeMs(pid: number): number | null {
  const startTicks = readStartTicks(pid);
  if (startTicks === null) return null;
  const ageMs = uptime() * 1000 - startTicks * MS_PER_TICK;
  // In some containers the two are not counted from the same moment.
  return ageMs >= 0 ? ageMs : null;
}

/** The fields of `/proc/<pid>/stat` from the third (state) on. */
export function readStatFields(pid: number): string[] | null {
  return readStat(pid)?.fields ?? null;
}

/**
 * The program's name, and the fields after it. The name may itself hold spaces and parentheses: only what follows
 * the last parenthesis can be split.
 */
export function readStat(pid: number): { readonly name: string; readonly fields: string[] } | null {
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

/** In a container it can be the machine's `/proc`, where our pids are other processes'. */
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

/** Of the machine, whatever container this is; null without `/proc`. */
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

/** Whose pids ours are, unless they are the machine's. */
function readContainer(): string[] {
  try {
    return [readlinkSync('/proc/self/ns/pid')].filter((pids) => pids !== MACHINE_PIDS);
  } catch {
    return [];
  }
}

/** The pids of the machine itself (PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h). */
const MACHINE_PIDS = 'pid:[4026531836]';

export const bootOf = (bootId: string | null): string | null => bootId?.split(' pid:')[0] ?? null;

/** Dead, but nobody has asked for its exit code yet: a signal still reaches it. */
function isZombie(pid: number): boolean {
  return readStatFields(pid)?.[0] === 'Z';
}

/** An unknown figure proves nothing; only two known ones can differ. */
function differs<T>(one: T | null, other: T | null): boolean {
  return one !== null && other !== null && one !== other;
}

function existsProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it exists, and is somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** `cron`, `crond`, `anacron`, `fcron`, `CRON` … */
const scheduler = /crond?$|^(?:supercronic|atd)$/i;

/**
 * Whether somebody called this by hand, although its output goes to no terminal: in `runner hourly | cat`, a script, a
 * command over ssh. What nobody can tell, as where `/proc` is hidden, counts as called by a scheduler.
 * Who knows better says so: the dashboard, in which somebody asks for a run, or a scheduler that calls over ssh.
 */
export function isCalledByHand({ RUNNER_CALLED_BY, SSH_CONNECTION }: NodeJS.ProcessEnv): boolean {
  if (RUNNER_CALLED_BY === 'person') return true;
  const own = readStat(process.pid);
  if (own === null || RUNNER_CALLED_BY === 'cron') return false;
  // The fields: its parent, its terminal.
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
