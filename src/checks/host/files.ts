import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { critical, type Found, found, note, ok, warning } from '../../monitor/finding.ts';
import { checkStateFolder } from '../../settings/access.ts';
import { defaultSettings } from '../../settings/settings.ts';
import { chooseJournalMode } from '../../store/sqlite/file.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf, formatBytes, formatSpan } from '../../system/base/format.ts';
import { capitalized } from '../../system/base/text.ts';
import { inPages, listNames, shellWord } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { type Distrust, judgePath, judgeRoot } from '../../system/place/trust.ts';
import { describeServedState, findWebRoot } from '../../system/place/web-exposure.ts';
import { ENOUGH_BYTES, MAKE_ROOM, readRoom } from '../place.ts';
import { askProgram, inScratchFolder, UnwritablePlace } from './probes.ts';
import { type DoctorPlace, findingOfFault, type HostCheck } from './site.ts';

export const checkDisk: HostCheck = {
  code: 'disk',
  run: async (place) => {
    const { root, state, env } = place;
    const isMade = existsSync(state.path);
    return [
      ...(await judgeSpace(isMade ? state.path : root, place)),
      ...(await judgeQuotas(env)),
      isMade ? describeState(state) : note('no .runner folder yet', 'The first pass creates it.'),
    ];
  },
};

async function judgeSpace(folder: string, { settings }: DoctorPlace): Promise<Found[]> {
  const { diskFull = ENOUGH_BYTES } = (await settings().catch(() => defaultSettings)).checks;
  const { freeBytes, totalBytes, files, lacksBytes, lacksFiles } = readRoom(folder, diskFull ?? 0);
  const free = `${formatBytes(freeBytes)} of ${formatBytes(totalBytes)} free`;
  const more = `only ${countOf(files, 'more file')} can be made (inodes)`;
  return [
    lacksBytes === null ? ok(free) : found(lacksBytes, `only ${free}`, MAKE_ROOM),
    ...(lacksFiles === null ? [] : [found(lacksFiles, more, MAKE_ROOM)]),
  ];
}

interface Quota {
  readonly device: string;
  readonly used: number;
  /** The lower one of the soft and the hard limit. */
  readonly limit: number;
  readonly unit: 'bytes' | 'files';
}

/** `-p` fills the columns of grace times, without which nobody can tell which number is which. */
const QUOTA = ['quota', '-w', '-p'] as const;

async function judgeQuotas(env: NodeJS.ProcessEnv): Promise<Found[]> {
  // It exits 1 when a quota is used up, so the exit code says nothing about the answer.
  const { stdout, failure } = await askProgram(QUOTA, {
    env: { ...env, LC_ALL: 'C' },
    timeoutMs: 5000,
  });
  const quotas = failure === null ? stdout.split('\n').flatMap(parseQuota) : [];
  if (quotas.length > 0) return quotas.map(judgeQuota);
  const isNone = failure === null && /^Disk quotas for .*: none\s*$/m.test(stdout);
  return [ok(isNone ? 'no quota' : 'quota unknown: no `quota` command that reports it')];
}

/** `/dev/sda1 12345* 10000 12000 1700000000 100 0 0 0`: kilobytes, then files; `*` marks what is used up. */
const quotaLine = /^\s*(\S+)\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s*$/;

function parseQuota(text: string): Quota[] {
  const [, device = '', ...figures] = quotaLine.exec(text) ?? [];
  if (device === '') return [];
  const [kilobytes = 0, softSize = 0, hardSize = 0, files = 0, softFiles = 0, hardFiles = 0] = figures.map(Number);
  const quotas: readonly Quota[] = [
    { device, used: kilobytes * 1024, limit: lower(softSize, hardSize) * 1024, unit: 'bytes' },
    { device, used: files, limit: lower(softFiles, hardFiles), unit: 'files' },
  ];
  return quotas.filter(({ limit }) => limit > 0);
}

/** 0 stands for no limit. */
function lower(soft: number, hard: number): number {
  return soft === 0 || hard === 0 ? Math.max(soft, hard) : Math.min(soft, hard);
}

function judgeQuota({ device, used, limit, unit }: Quota): Found {
  const amount = (count: number): string => (unit === 'bytes' ? formatBytes(count) : `${count} files`);
  const found = `quota of ${device}: ${amount(used)} of ${amount(limit)} used`;
  if (used >= 0.98 * limit) return critical(found, MAKE_ROOM);
  return used >= 0.9 * limit ? warning(found, MAKE_ROOM) : ok(found);
}

function describeState(state: StateFolder): Found {
  const parts = [
    ['activity log', bytesOfAll(state.database)],
    ['output', bytesOf(state.output)],
    ['cache', bytesOf(state.cache)],
    ['spool', bytesOf(state.spool)],
    ['scripts’ temporary files', bytesOf(state.temporary)],
  ] as const;
  const large = parts.filter(([, bytes]) => bytes > 0).map(([part, bytes]) => `${part} ${formatBytes(bytes)}`);
  const isReserved = statSync(state.reserve, { throwIfNoEntry: false })?.isFile() === true;
  const reserve = isReserved ? 'reserve for a full disk' : 'no reserve for a full disk yet';
  return ok(`.runner takes ${formatBytes(bytesOf(state.path))}: ${[...large, reserve].join(', ')}`);
}

/** The bytes of all files whose names begin so. */
function bytesOfAll(path: string): number {
  const folder = dirname(path);
  const names = listNames(folder).filter((name) => name.startsWith(basename(path)));
  return names.reduce((total, name) => total + bytesOf(join(folder, name)), 0);
}

/** Disk space of a file or folder; 0 if it is gone meanwhile or cannot be read. */
function bytesOf(path: string): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return 0;
  if (!stats.isDirectory()) return stats.blocks * 512;
  return namesIn(path).reduce((total, name) => total + bytesOf(join(path, name)), 0);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Operations tried in the folder, by description; each throws the reason why it does not work. */
const trials: Readonly<Record<string, (folder: string) => void>> = {
  'to make and rename a folder': tryFolders,
  'to make a hard link': (folder) => linkSync(makeFile(folder, 'one'), join(folder, 'two')),
  'to write to the disk at once (fsync)': tryFsync,
  'to set the time of a file': (folder) => utimesSync(makeFile(folder, 'dated'), 1, 1),
};

const OTHER_PLACE = 'Move the root to a file system of the machine itself, or ask the host.';

export const checkFileSystem: HostCheck = {
  code: 'file system',
  run: ({ root, state, env }) =>
    inScratchFolder(existsSync(state.path) ? state.path : root, async (folder) => [
      describeFileSystem(folder),
      ...Object.entries(trials).flatMap(([what, attempt]) => tryOut(folder, what, attempt)),
      ...compareDates(folder),
      ...(await tryPrograms(folder, join(root, 'jobs'), env)),
    ]).catch(describeUnwritable),
};

function describeUnwritable(error: Error): Found[] {
  if (!(error instanceof UnwritablePlace)) throw error;
  return [
    critical(
      error.message,
      'Make the root and .runner writable for you (`chmod u+rwx`), and see that the disk is not full.',
    ),
  ];
}

const TMPFS = 0x01021994;

/** The numbers that the kernel has for them (statfs(2)). */
const fileSystems: ReadonlyMap<number, string> = new Map([
  [0xef53, 'ext4'],
  [0x58465342, 'XFS'],
  [0x9123683e, 'Btrfs'],
  [0x2fc12fc1, 'ZFS'],
  [TMPFS, 'tmpfs'],
  [0x794c7630, 'overlayfs'],
  [0xf2f52010, 'F2FS'],
  [0x6969, 'NFS'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x65735546, 'FUSE'],
  [0x01021997, '9p'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
]);

function describeFileSystem(folder: string): Found {
  const type = Number(statfsSync(folder).type);
  const name = fileSystems.get(type) ?? `of a kind that is not known (0x${type.toString(16)})`;
  if (type === TMPFS) {
    return note(`${name}: in memory, gone with the next start of the machine`, 'Move the root to a disk.');
  }
  if (chooseJournalMode(folder) === 'wal') return ok(`${name}, on this machine`);
  return note(
    `${name}, perhaps over a network: the log keeps a rollback journal, which is slower and safe there`,
    'Nothing needs to be done; a root on a disk of the machine itself is faster.',
  );
}

function tryOut(folder: string, what: string, attempt: (folder: string) => void): Found[] {
  try {
    attempt(folder);
    return [];
  } catch (error) {
    return [critical(`it does not work ${what}: ${(error as Error).message}`, OTHER_PLACE)];
  }
}

/** As a tier's lock does it: onto an empty folder it works, onto one with a file in it it must not. */
function tryFolders(folder: string): void {
  const [held, next] = [join(folder, 'held'), join(folder, 'next')];
  for (const each of [held, next]) mkdirSync(each);
  renameSync(next, held);
  makeFile(held, 'holder');
  mkdirSync(next);
  if (isDone(() => renameSync(next, held))) throw new Error('a folder that is not empty was replaced');
}

function isDone(attempt: () => void): boolean {
  try {
    attempt();
    return true;
  } catch {
    return false;
  }
}

function tryFsync(folder: string): void {
  const fd = openSync(join(folder, 'synced'), 'w');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function makeFile(folder: string, name: string): string {
  const path = join(folder, name);
  writeFileSync(path, name);
  return path;
}

const TOLERATED_MS = 5000;

/** A server that keeps the files can have another clock: locks of other hosts are judged by it. */
function compareDates(folder: string): Found[] {
  const before = Date.now();
  const apart = statSync(makeFile(folder, 'now')).mtimeMs - before;
  if (Math.abs(apart) <= TOLERATED_MS) return [];
  const direction = apart > 0 ? 'ahead of' : 'behind';
  return [
    warning(
      `files are dated ${formatSpan(Math.abs(apart))} ${direction} the clock of this machine`,
      'Ask the host to set the clocks of its machines by NTP.',
    ),
  ];
}

/** Tries it in `jobs/` if that is another file system. */
async function tryPrograms(folder: string, jobs: string, env: NodeJS.ProcessEnv): Promise<Found[]> {
  const isOther = existsSync(jobs) && statSync(jobs).dev !== statSync(folder).dev;
  return isOther ? await inScratchFolder(jobs, (other) => tryProgram(other, env)) : await tryProgram(folder, env);
}

async function tryProgram(folder: string, env: NodeJS.ProcessEnv): Promise<Found[]> {
  const path = join(folder, 'program');
  writeFileSync(path, '#!/bin/sh\n', { mode: 0o755 });
  const { exitCode, failure } = await askProgram([path], { env, timeoutMs: 5000 });
  if (exitCode === 0) return [];
  return [
    warning(
      `no program can be started from here (mounted noexec?): ${failure ?? `exit code ${exitCode}`}`,
      'Keep compiled programs elsewhere and call them from a script; scripts with an interpreter run.',
    ),
  ];
}

/** Whether scripts themselves are safe says `jobs`, and of the settings' file `settings`. */
export const checkPermissions: HostCheck = {
  code: 'permissions',
  run: async (place) => {
    const isAllowed = (await place.settings().catch(() => null))?.allowUnsafe ?? false;
    const findings = [...findWritable(place.root), ...judgeWebRoot(place), ...judgeOwnerOfState(place)].map(
      (finding) => (isAllowed ? allow(finding) : finding),
    );
    const all = [...findings, ...judgeModeOfState(place), ...(await findAccessLists(place))];
    return all.length > 0 ? all : [ok('only you can write the root, jobs and .runner')];
  },
};

/**
 * With an access control list, the group bits of the mode are the most that anybody in the list may do. A reader of the
 * mode takes them for the group's own rights, and on many hosts the group has one member. Node cannot read such a list.
 */
async function findAccessLists({ root, state, env, discovery }: DoctorPlace): Promise<Found[]> {
  const { tiers, handlers } = await discovery();
  const scripts = [...tiers.flatMap((tier) => tier.scripts), ...handlers].map(({ path }) => path);
  const settings = listNames(root).filter((name) => name.startsWith('runner.config.'));
  const others = [root, join(root, 'jobs'), state.path, ...settings.map((name) => join(root, name))];
  const open = [...new Set([...others, ...scripts.map(dirname), ...scripts])].filter(isGroupWritable);
  const listed: string[] = [];
  for (const names of inPages(open.map((path) => relative(root, path) || '.'))) {
    const request = { cwd: root, env: { ...env, LC_ALL: 'C' }, timeoutMs: 5000 };
    const { stdout } = await askProgram(['ls', '-ld', '--', ...names], request);
    const lines = stdout.split('\n').filter((line) => /^.{10}\+/.test(line));
    listed.push(...names.filter((name) => lines.some((line) => line.endsWith(` ${name}`))));
  }
  return listed.map((name) => {
    const cure = `\`getfacl ${shellWord(name)}\` shows who; close it with: chmod g-w ${shellWord(name)}`;
    return warning(`${name === '.' ? root : name} has an access control list, and others in it may write`, cure);
  });
}

function isGroupWritable(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats !== undefined && (stats.mode & 0o020) !== 0;
}

/** A fault that `allowUnsafe` allows is a warning: the runner accepts it, but the danger stays. */
function allow({ message, hint }: Found): Found {
  return found('warning', `${message} (allowed by allowUnsafe)`, hint);
}

function findWritable(root: string): Found[] {
  return [judgeRoot(root), ...judgePath(root, join(root, 'jobs'))]
    .filter((distrust) => distrust !== null)
    .map((distrust) => describeWritable(root, distrust));
}

function describeWritable(root: string, { path, reason, cure }: Distrust): Found {
  const name = relative(root, path);
  const shown = name === '' || name.startsWith('..') ? path : name;
  return critical(`${shown} ${reason}, so no script is run`, capitalized(cure(shown)));
}

function judgeWebRoot({ root, state }: DoctorPlace): Found[] {
  const webRoot = findWebRoot(root);
  if (webRoot === null) {
    const served = describeServedState(state);
    return served === null ? [] : [findingOfFault(served)];
  }
  return [
    critical(
      `the root is inside ${webRoot}, which a web server probably serves, with scripts, output and passwords`,
      `Move the root beside ${webRoot}, not into it, then run \`npx folder-runner cron --install\` there.`,
    ),
  ];
}

function judgeOwnerOfState({ root, state }: DoctorPlace): Found[] {
  try {
    checkStateFolder(root, state);
    return [];
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return error.faults.filter((fault) => typeof fault !== 'string').map(findingOfFault);
  }
}

/** The state folder holds the output of scripts. */
function judgeModeOfState({ state }: DoctorPlace): Found[] {
  if (!existsSync(state.path)) return [];
  const mode = statSync(state.path).mode & 0o777;
  if ((mode & 0o077) === 0) return [];
  const octal = mode.toString(8).padStart(4, '0');
  return [
    note(`.runner is open to others (mode ${octal})`, 'The next pass closes it; `chmod 700 .runner` closes it now.'),
  ];
}
