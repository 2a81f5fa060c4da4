import { execFileSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { fallbackStateFoldersOf } from '../../../src/system/place/fallback.ts';
import { runWithFault } from '../../support/faults/faults.ts';
import { checkInvariants, nodeScript, readEvidence, shellScript } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

/*
 * Whole passes where there is no room: a small disk says ENOSPC, a used up quota EDQUOT, and SQLite
 * has a code for only one of them, and for no inodes none. Btrfs has quotas without help from the kernel's configuration.
 */

const run = (program: string, ...args: readonly string[]): void => {
  execFileSync(program, args, { stdio: 'ignore' });
};

function mountSmallDisk(folder: string): string {
  run('mount', '-t', 'tmpfs', '-o', 'size=8m', 'small-disk', folder);
  return folder;
}

function mountQuota(folder: string): string {
  const image = `${folder}.img`;
  writeFileSync(image, '');
  truncateSync(image, 160 * 1024 ** 2);
  onTestFinished(() => rmSync(image));
  run('mkfs.btrfs', '--quiet', image);
  run('mount', '-o', 'loop', image, folder);
  const home = join(folder, 'home');
  run('btrfs', 'quota', 'enable', folder);
  run('btrfs', 'subvolume', 'create', home);
  run('btrfs', 'qgroup', 'limit', '8M', home);
  return home;
}

const fills = `#!/bin/sh
[ -e fill ] || exit 0
dd if=/dev/zero of=filler bs=64k 2> /dev/null
dd if=/dev/zero of=filler.2 bs=1 2> /dev/null
sync
exit 0
`;

/** A root where there is room for 8 MB. */
function makeRootIn(mount: (folder: string) => string): string {
  const folder = mkdtempSync(join(tmpdir(), 'no-room-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const home = mount(folder);
  onTestFinished(() => run('umount', '--lazy', folder));
  const { TMPDIR } = process.env;
  process.env.TMPDIR = home;
  try {
    return makeTemporaryRoot({
      'jobs/hourly/a.sh': executable('#!/bin/sh\necho before\n'),
      'jobs/hourly/b-fills.sh': executable(fills),
      'jobs/hourly/c.mjs': 'console.log("after");',
      'jobs/hourly/d.sh': executable('#!/bin/sh\n# @retries 1\n# @retry-delay 1ms\necho after\n'),
      'jobs/daily/other.sh': executable('#!/bin/sh\nexit 0\n'),
    });
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  }
}

/** Takes what room there is; by which error it ended. Node has no name for the one of a quota. */
function fillUp(root: string): number {
  let fd: number | null = null;
  try {
    fd = openSync(join(root, 'filler.3'), 'a');
    for (;;) {
      writeSync(fd, Buffer.alloc(4096));
      fsyncSync(fd);
    }
  } catch (error) {
    return -((error as NodeJS.ErrnoException).errno as number);
  } finally {
    if (fd !== null) closeSync(fd);
  }
}

test.each([
  ['a disk without room', mountSmallDisk, constants.errno.ENOSPC],
  ['a used up quota', mountQuota, constants.errno.EDQUOT],
])('%s: what ran is recorded, what could not is told, and then all goes on', async (_, mount, error) => {
  const root = makeRootIn(mount);
  expect((await runWithFault(root, ['hourly'])).status).toBe(0);

  // One script takes all the room while the pass goes on; then there is none from the beginning.
  writeFileSync(join(root, 'fill'), '');
  const filling = await runWithFault(root, ['hourly']);
  expect(fillUp(root)).toBe(error);
  const full = await runWithFault(root, ['hourly']);
  for (const { status, stderr } of [filling, full]) {
    expect([0, 1]).toContain(status);
    // The reserve may have been enough; else one sentence says so, once for all of the pass.
    const told = stderr.split('\n').filter((line) => line.includes('activity.db'));
    expect(told.length).toBeLessThanOrEqual(1);
    for (const line of told) expect(line).toMatch(/your quota/);
  }

  for (const name of ['fill', 'filler', 'filler.2', 'filler.3']) rmSync(join(root, name), { force: true });
  run('sync');
  expect((await runWithFault(root, ['daily'])).status).toBe(0);
  expect((await runWithFault(root, ['hourly'])).status).toBe(0);
  const counts = 'select script, count(*) as first from runs where attempt = 1 group by script order by 1';
  expect(queryLog(root, counts)).toEqual([
    { script: 'daily/other', first: 1 },
    ...['a', 'b-fills', 'c', 'd'].map((name) => ({ script: `hourly/${name}`, first: 4 })),
  ]);
  // The one that prints, where nothing can be written, fails; what prints nothing needs no room.
  expect(queryLog(root, "select distinct outcome from runs where script = 'hourly/b-fills'")).toEqual([
    { outcome: 'succeeded' },
  ]);
  checkInvariants(root);
});

/** Lets the file system of a folder have so many more files than it has. */
function leaveInodes(folder: string, left: number): void {
  const { files, ffree } = statfsSync(folder);
  run('mount', '-o', `remount,nr_inodes=${files - ffree + left}`, folder);
}

test.each([0, 1, 2, 3, 5, 8, 12, 14, 16, 18, 20, 22, 24, 26, 30])(
  'a disk that takes %i more files: each script runs in the first pass and in later ones, and all is recorded',
  async (left) => {
    const scripts = { 'jobs/hourly/a.sh': shellScript(), 'jobs/hourly/b.mjs': nodeScript() };
    const settings = { 'runner.config.json': '{ "checks": { "diskFull": false } }' };
    const root = makeTemporaryRoot({ ...scripts, ...settings, 'jobs/hourly/c.sh': shellScript() });
    const site = mkdtempSync(join(tmpdir(), 'no-inodes-'));
    run('mount', '-t', 'tmpfs', '-o', 'mode=700', 'small-disk', site);
    cpSync(root, site, { recursive: true });
    writeFileSync(join(site, 'evidence'), '');
    onTestFinished(() => {
      for (const { path } of fallbackStateFoldersOf(site)) rmSync(path, { recursive: true, force: true });
      run('umount', '--lazy', site);
      rmSync(site, { recursive: true });
    });
    for (const pass of [1, 2]) {
      leaveInodes(site, left);
      const { status, stderr } = await runWithFault(site, ['hourly']);
      expect([status, readEvidence(site).length], stderr).toEqual([0, 3 * pass]);
      for (const line of stderr.trimEnd().split('\n').filter(Boolean)) {
        expect(line).toMatch(
          /^runner: No file can be made in \S+\.runner .+: it has no inodes left, so it takes no more files\./,
        );
      }
      leaveInodes(site, 1_000);
      if (pass === 1) rmSync(join(site, '.runner', 'reserve'), { force: true });
    }
    expect(await runWithFault(site, ['due'])).toMatchObject({ status: 0, stderr: '' });
    checkInvariants(site);
  },
);
