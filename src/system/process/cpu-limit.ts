import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Prefix of the kernel's files; tests have their own. */
const ROOT = '/';

/**
 * How many processors the control groups of this process may use at the same time: 0.5 is half of one. Other limits of
 * a host, such as CloudLinux's, are invisible here.
 *
 * @returns null: no limit, or an unknown one
 */
export function readCpuLimit(root = ROOT): number | null {
  const lines = (readText(root, 'proc/self/cgroup') ?? '').split('\n');
  const limits = lines.flatMap((line) => {
    const [, controllers = '', path = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (line === '') return [];
    if (controllers === '') return listFolders('sys/fs/cgroup', path).map((folder) => readQuota(root, folder));
    if (!controllers.split(',').includes('cpu')) return [];
    return [`sys/fs/cgroup/${controllers}`, 'sys/fs/cgroup/cpu']
      .flatMap((mount) => listFolders(mount, path))
      .map((folder) => readOldQuota(root, folder));
  });
  const known = limits.filter((limit) => limit !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** Each group on the way to the top can have its own limit. */
function listFolders(mount: string, path: string): string[] {
  return path === '/' || path === '.' ? [mount] : [join(mount, path), ...listFolders(mount, dirname(path))];
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

function readText(root: string, path: string): string | null {
  try {
    return readFileSync(join(root, path), 'latin1');
  } catch {
    return null;
  }
}
