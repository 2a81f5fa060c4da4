import { mkdirSync, realpathSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCommand, startCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const RUNS = 'select outcome, outputs.output from runs left join outputs on run_id = runs.id order by runs.id';

/** Two releases, of which a link names the first; each runs a script that says where it is. */
function makeReleases(isShared: boolean) {
  const script = 'pwd; echo "$RUNNER_ROOT"; touch began; until [ -e go ]; do sleep 0.02; done; pwd\n';
  const site = realpathSync(makeTemporaryRoot({ '1/jobs/hourly/a.sh': script, '2/jobs/hourly/a.sh': 'pwd\n' }));
  mkdirSync(join(site, 'shared'), { mode: 0o700 });
  if (isShared) for (const release of ['1', '2']) symlinkSync('../shared', join(site, release, '.runner'));
  const current = join(site, 'current');
  symlinkSync('1', current);
  const place = { cwd: '/', env: { ...makeFakeCrontab().env, PWD: '/' } };
  /** As a deploy does it, in one step. */
  const switchLink = (): void => {
    symlinkSync('2', join(site, 'next'));
    renameSync(join(site, 'next'), current);
  };
  return { site, current, place, switchLink, args: ['--root', current, 'hourly'] };
}

test.each([true, false])(
  'a pass ends in the release in which it began, when the link is switched (shared: %s)',
  async (isShared) => {
    const { site, place, switchLink, args } = makeReleases(isShared);
    const pass = startCommand(args, place);
    await until('the script runs', () =>
      runCommand(['--root', join(site, '1'), 'status'], place).stdout.includes('hourly/a · for'),
    );
    switchLink();
    if (isShared) expect(runCommand(args, place)).toMatchObject({ status: 0 });
    writeFileSync(join(site, '1/go'), '');
    expect((await pass.ended).status).toBe(0);
    const runs = () => queryLog(join(site, '1'), RUNS);
    const first = `${site}/1\n`.repeat(3);
    // The pass in between has found the lock of the first one: nothing overlaps.
    expect(runs()).toEqual([{ outcome: 'succeeded', output: first }]);
    expect(runCommand(args, place).status).toBe(0);
    const second = queryLog(join(site, '2'), RUNS);
    const there = { outcome: 'succeeded', output: `${site}/2\n` };
    expect(second).toEqual(isShared ? [{ outcome: 'succeeded', output: first }, there] : [there]);
  },
);

test('a root that the shell has entered through a link is installed under that name', () => {
  const { current, place, switchLink, args } = makeReleases(true);
  const crontab = makeFakeCrontab();
  const env = { ...crontab.env, PWD: current };
  expect(runCommand(['cron', '--install'], { cwd: current, env }).status).toBe(0);
  const installed = String(crontab.read());
  expect(installed).toMatch(new RegExp(` hourly ${current}$`, 'm'));
  switchLink();
  expect(runCommand(['cron', '--install'], { cwd: current, env }).stdout).toContain('Your crontab already had');
  expect(String(crontab.read())).toBe(installed);
  expect(runCommand(args, place).status).toBe(0);
});

const ways = ['init', 'cron', 'doctor'] as const;
const argsOf = { init: ['init'], cron: ['cron', '--install'], doctor: ['doctor'] };

test.each(ways)('%s names a link on the way to the root that would leave the log behind, and its cure', (way) => {
  for (const isShared of [false, true]) {
    const { current, site } = makeReleases(isShared);
    const place = { cwd: current, env: { ...makeFakeCrontab().env, PWD: current } };
    const { stdout, stderr } = runCommand(['--root', current, ...argsOf[way]], place);
    const said = `${stdout}${stderr}`.replaceAll(/\s+/g, ' ');
    const isNamed = said.includes(
      `${current} is a link: when it leads to another release one day, the log and the waiting jobs stay behind in ${site}/1/.runner`,
    );
    const hasCure = said.includes('Make .runner a link to one folder for all releases, as docs/cron.md shows.');
    expect([isNamed, hasCure]).toEqual([!isShared, !isShared]);
  }
});
