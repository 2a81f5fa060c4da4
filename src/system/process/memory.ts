import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Prefix of the kernel's files; tests have their own. */
const ROOT = '/';

/**
 * Memory in bytes that a new process could have: what is left on the machine, or in the control group of this process
 * if that is less. Caches that the kernel would give up count as free.
 *
 * @returns null if unknown
 */
export function readFreeMemory(root = ROOT): number | null {
  const known = [readMachine(root), ...readControlGroups(root)].filter((each) => each !== null);
  return known.length === 0 ? null : Math.max(0, Math.min(...known));
}

function readMachine(root: string): number | null {
  const match = /^MemAvailable:\s+(\d+) kB/m.exec(readText(root, 'proc/meminfo') ?? '');
  return match === null ? null : Number(match[1]) * 1024;
}

/** Each group on the way to the top can have its own limit. */
function readControlGroups(root: string): (number | null)[] {
  return listGroups(root).flatMap(({ controllers, folders }) => {
    const version = versions.find((each) => each.isMeant(controllers));
    return version === undefined ? [] : folders.map((each) => readRoom(root, join(version.folder, each), version));
  });
}

/** The control groups of this process, with their folders and those above them, below that of the controllers. */
function listGroups(root: string): { readonly controllers: readonly string[]; readonly folders: readonly string[] }[] {
  const lines = (readText(root, 'proc/self/cgroup') ?? '').split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [, controllers = '', path = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    return { controllers: controllers.split(','), folders: listAncestors(path) };
  });
}

interface Version {
  readonly isMeant: (controllers: readonly string[]) => boolean;
  readonly folder: string;
  readonly limit: string;
  readonly usage: string;
  readonly cache: RegExp;
}

/** https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/memory.html */
const versions: readonly Version[] = [
  {
    isMeant: ([first]) => first === '',
    folder: 'sys/fs/cgroup',
    limit: 'memory.max',
    usage: 'memory.current',
    cache: /^inactive_file (\d+)$/m,
  },
  {
    isMeant: (controllers) => controllers.includes('memory'),
    folder: 'sys/fs/cgroup/memory',
    limit: 'memory.limit_in_bytes',
    usage: 'memory.usage_in_bytes',
    cache: /^total_inactive_file (\d+)$/m,
  },
];

function listAncestors(path: string): string[] {
  return path === '/' || path === '.' ? ['/'] : [path, ...listAncestors(dirname(path))];
}

/** "max" means no limit; version 1 has a number instead that no machine reaches. */
function readRoom(root: string, folder: string, version: Version): number | null {
  const limit = readText(root, join(folder, version.limit));
  const usage = readText(root, join(folder, version.usage));
  if (limit === null || usage === null || limit.trim() === 'max') return null;
  const cache = version.cache.exec(readText(root, join(folder, 'memory.stat')) ?? '')?.[1] ?? 0;
  return Number(limit) - Number(usage) + Number(cache);
}

function readText(root: string, path: string): string | null {
  try {
    return readFileSync(join(root, path), 'latin1');
  } catch {
    return null;
  }
}

/**
 * Resident memory of several processes, in bytes. A page that n processes share counts 1/n for each (PSS). The kernel
 * walks through all of their pages: about 10 µs per MB.
 *
 * @returns null if the kernel does not tell: before Linux 4.14, without `/proc`, or for another user's process
 */
export function readSharedRss(pids: readonly number[]): number | null {
  const each = pids.map(readPss);
  return each.includes(null) ? null : each.reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0);
}

function readPss(pid: number): number | null {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
    const match = /^Pss:\s+(\d+) kB/m.exec(rollup);
    return match === null ? null : Number(match[1]) * 1024;
  } catch (error) {
    // The process has ended since it was listed, so it has no memory.
    return ['ESRCH', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '') ? 0 : null;
  }
}

/**
 * How many processors the control groups of this process may use at the same time: 0.5 is half of one. Other limits of
 * a host, such as CloudLinux's, are invisible here.
 *
 * @returns null: no limit, or an unknown one
 */
export function readCpuLimit(root = ROOT): number | null {
  const limits = listGroups(root).flatMap(({ controllers, folders }) => {
    if (controllers[0] === '') return folders.map((folder) => readQuota(root, join('sys/fs/cgroup', folder)));
    if (!controllers.includes('cpu')) return [];
    return [`sys/fs/cgroup/${controllers}`, 'sys/fs/cgroup/cpu']
      .flatMap((mount) => folders.map((folder) => join(mount, folder)))
      .map((folder) => readOldQuota(root, folder));
  });
  const known = limits.filter((limit) => limit !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** https://docs.kernel.org/admin-guide/cgroup-v2.html: "max 100000"; "50000 100000" is half a processor. */
function readQuota(root: string, folder: string): number | null {
  return toLimit(...((readText(root, join(folder, 'cpu.max')) ?? '').trim().split(' ') as [string, string?]));
}

function readOldQuota(root: string, folder: string): number | null {
  const period = readText(root, join(folder, 'cpu.cfs_period_us')) ?? undefined;
  return toLimit(readText(root, join(folder, 'cpu.cfs_quota_us')) ?? '', period);
}

/** -1 and "max" mean no limit. */
function toLimit(quota: string, period = ''): number | null {
  const limit = Number.parseInt(quota, 10) / Number.parseInt(period, 10);
  return limit > 0 && Number.isFinite(limit) ? limit : null;
}
