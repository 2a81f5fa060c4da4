import { expect, test } from 'vitest';
import { runPass } from '../support/command.ts';
import { checkInvariants, shellScript } from '../support/faults/invariants.ts';
import { queryLog } from '../support/log.ts';

const SCRIPTS = 50;

test('of 50 scripts every second fails: all are recorded, and one summary tells which', () => {
  const names = Array.from({ length: SCRIPTS }, (_, index) => `s${String(index).padStart(2, '0')}`);
  const failing = names.filter((_, index) => index % 2 === 1);
  const scripts = names.map((name) => [`${name}.sh`, shellScript({ exit: failing.includes(name) ? '3' : '0' })]);

  const { root, status, stdout, stderr } = runPass(Object.fromEntries(scripts));

  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  expect(stderr).toMatch(/^runner: 25 of 50 scripts of hourly did not succeed \(.+\)\n/);
  expect(stderr.match(/did not succeed/g)).toHaveLength(1);
  const told = [...stderr.matchAll(/^hourly\/(\S+) failed after .+: exit code 3$/gm)];
  expect(told.map(([, name]) => name)).toEqual(failing);
  expect(queryLog(root, 'select script, outcome, exit_code from runs order by id')).toEqual(
    names.map((name) => ({
      script: `hourly/${name}`,
      outcome: failing.includes(name) ? 'failed' : 'succeeded',
      exit_code: failing.includes(name) ? 3 : 0,
    })),
  );
  checkInvariants(root);
});
