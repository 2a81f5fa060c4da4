import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, runCommand } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot, mountSmallDisk } from '../../support/root.ts';

/** A root on a disk of its own. */
function makeSmallRoot(): string {
  const root = makeTemporaryRoot();
  mountSmallDisk(root, '4m');
  mkdirSync(join(root, 'jobs/hourly'), { recursive: true });
  return root;
}

test('a run whose disk was full says that some of its output may be missing', () => {
  const root = makeSmallRoot();
  const pass = () => runCommand(['hourly', '--root', root], cronPlace(root));
  writeFileSync(join(root, 'jobs/hourly/a.sh'), '[ -e fill ] || exit 0; cat /dev/zero >filler; echo x\n');
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
