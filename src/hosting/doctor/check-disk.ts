import { existsSync, statfsSync, statSync } from 'node:fs';
import type { StateFolder } from '../../config/state-folder.ts';
import { countOf, sizeOf } from './amounts.ts';
import { type Check, type Finding, note, ok, problem, warning } from './finding.ts';
import { folderBytes } from './folder-bytes.ts';
import { type Quota, readQuotas } from './quota.ts';

const MEGABYTE = 1024 ** 2;
const MAKE_ROOM =
  'Delete what is not needed, or set a shorter `retention` in the settings, which prunes the log.';

export const checkDisk: Check = {
  name: 'disk',
  run: async ({ root, state, env }) => {
    const isMade = existsSync(state.path);
    return [
      judgeSpace(isMade ? state.path : root),
      ...judgeFiles(isMade ? state.path : root),
      ...judgeQuotas(await readQuotas(env)),
      ...(isMade
        ? [describeState(state)]
        : [note('no .runner folder yet', 'The first pass makes it.')]),
    ];
  },
};

function judgeSpace(folder: string): Finding {
  const { bavail, blocks, bsize } = statfsSync(folder);
  const found = `${sizeOf(bavail * bsize)} of ${sizeOf(blocks * bsize)} free`;
  if (bavail * bsize < 5 * MEGABYTE) return problem(`only ${found}`, MAKE_ROOM);
  return bavail * bsize < 100 * MEGABYTE ? warning(`only ${found}`, MAKE_ROOM) : ok(found);
}

/** Some file systems have no fixed number of files: then the total is 0. */
function judgeFiles(folder: string): Finding[] {
  const { files, ffree } = statfsSync(folder);
  if (files === 0 || ffree >= 1000) return [];
  const found = `only ${countOf(ffree, 'more file')} can be made (inodes)`;
  return [ffree < 50 ? problem(found, MAKE_ROOM) : warning(found, MAKE_ROOM)];
}

function judgeQuotas(quotas: readonly Quota[] | null): Finding[] {
  if (quotas === null) return [ok('quota unknown: no `quota` command that tells')];
  if (quotas.length === 0) return [ok('no quota')];
  return quotas.map(judgeQuota);
}

function judgeQuota({ device, used, limit, unit }: Quota): Finding {
  const amount = (count: number): string => (unit === 'bytes' ? sizeOf(count) : `${count} files`);
  const found = `quota of ${device}: ${amount(used)} of ${amount(limit)} used`;
  if (used >= 0.98 * limit) return problem(found, MAKE_ROOM);
  return used >= 0.9 * limit ? warning(found, MAKE_ROOM) : ok(found);
}

function describeState(state: StateFolder): Finding {
  const parts = [
    ['activity log', folderBytes(`${state.database}*`)],
    ['output', folderBytes(state.output)],
    ['cache', folderBytes(state.cache)],
    ['spool', folderBytes(state.spool)],
    ['scripts’ temporary files', folderBytes(state.temporary)],
  ] as const;
  const large = parts
    .filter(([, bytes]) => bytes > 0)
    .map(([part, bytes]) => `${part} ${sizeOf(bytes)}`);
  const reserve = hasReserve(state) ? 'reserve for a full disk' : 'no reserve for a full disk yet';
  return ok(`.runner takes ${sizeOf(folderBytes(state.path))}: ${[...large, reserve].join(', ')}`);
}

function hasReserve({ reserve }: StateFolder): boolean {
  return statSync(reserve, { throwIfNoEntry: false })?.isFile() === true;
}
