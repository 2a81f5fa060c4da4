import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { cronPlace } from '../support/cron-place.ts';
import { checkInvariants } from '../support/invariants.ts';
import { queryLog } from '../support/open-log.ts';
import { runCommand } from '../support/run-command.ts';

/** A root on a disk of its own. */
function makeSmallRoot(): string {
  const root = mkdtempSync(join(tmpdir(), 'small-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=755', 'small-disk', root]);
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', root]);
    rmSync(root, { recursive: true });
  });
  mkdirSync(join(root, 'jobs/hourly'), { recursive: true });
  return root;
}

test('a run whose disk was full says that some of its output may be missing', () => {
  const root = makeSmallRoot();
  const pass = () => runCommand(['hourly', '--root', root], cronPlace(root));
  writeFileSync(
    join(root, 'jobs/hourly/a.sh'),
    '[ -e fill ] || exit 0; cat /dev/zero >filler; echo x\n',
  );
  expect(pass().status).toBe(0);
  writeFileSync(join(root, 'fill'), '');
  pass();
  rmSync(join(root, 'filler'));
  rmSync(join(root, 'fill'));
  expect(pass().status).toBe(0);
  const warning = 'the disk was full when it ended: some of its output may be missing';
  expect(queryLog(root, 'select warning from runs order by started_at, id')).toEqual([
    { warning: null },
    { warning },
    { warning: null },
  ]);
  checkInvariants(root);
});
