import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { makeLinkedSite as makeSite } from '../../support/linked-site.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { writeFiles } from '../../support/root.ts';

/* Scripts with `@except`, which passes leave out on the dates in a file. */

const UTC = '@timezone UTC';

/** The date in some days. */
const date = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

/** Today, whichever day the test ends on. */
const holidays = (...more: readonly string[]): string => [date(-1), `${date(0)} to ${date(1)}`, ...more, ''].join('\n');

const told = (site: ReturnType<typeof makeSite>, ...args: readonly string[]): string => {
  const { stdout, stderr } = site.call(...args);
  return `${stdout}${stderr}`.replaceAll(/\s+/g, ' ');
};

test('a pass leaves a script out on its dates, and says so; by hand it runs', () => {
  const files = { 'holidays.txt': holidays(), 'closed.csv': `date,why\n${date(40)},stocktaking\n` };
  const site = makeSite({ 'hourly/a': ['@except holidays.txt closed.csv', UTC], 'hourly/b': [] }, files);
  expect(told(site, 'list')).toContain('not on the dates in holidays.txt closed.csv · by the clock of UTC');
  expect(told(site, 'hourly', '--dry-run')).toMatch(/1 hourly\/b .* - hourly\/a · left out by its @except until \d/);
  expect(site.ran('hourly')).toEqual(['b']);
  expect(queryLog(site.root, 'select name from jobs')).toEqual([{ name: 'hourly/b' }]);
  expect(told(site, 'why', 'hourly/a')).toMatch(/! except left out until \d/);
  expect(site.ran('run', 'hourly/a')).toEqual(['a']);
  writeFiles(site.root, { 'holidays.txt': `${date(30)}\n` });
  expect(site.ran('hourly')).toEqual(['a', 'b']);
  // Several files add up.
  writeFiles(site.root, { 'closed.csv': `date,why\n${holidays()}` });
  expect(site.ran('hourly')).toEqual(['b']);
});

test('a retry, and what waits since the day before, come on such a date all the same', () => {
  const tags = ['@except holidays.txt', UTC, '@retries 1', '@retry-delay 1s'];
  const site = makeSite({ 'hourly/a': tags }, { 'holidays.txt': `${date(30)}\n` });
  site.fail('a');
  expect(site.ran('hourly')).toEqual(['a']);
  changeLog(site.root, `update jobs set run_at = 1000 where state = 'retrying'`);
  writeFiles(site.root, { 'holidays.txt': holidays() });
  expect(site.ran('hourly')).toEqual(['a']);
  expect(site.ran('hourly')).toEqual([]);
});

test('calls of `due` leave it out, too, and make no pass for it alone', () => {
  const site = makeSite({ 'hourly/a': ['@except holidays.txt', UTC] }, { 'holidays.txt': holidays() });
  const passes = () => queryLog(site.root, `select id from workers where kind = 'tier'`).length;
  site.ran('due');
  changeLog(site.root, `update chores set done_at = done_at - 7200000 where name like 'due %'`);
  site.ran('due');
  const count = passes();
  expect(site.ran('due')).toEqual([]);
  expect(passes()).toBe(count);
});

test.each([
  ['holidays.txt', {}, 'holidays.txt does not exist in'],
  ['holidays.txt', { 'holidays.txt': '2026-02-30\n' }, 'holidays.txt:1: '],
  ['../holidays.txt', {}, '../holidays.txt'],
  ['sunday', {}, '@except must be files of dates such as holidays.txt, from the root, found "sunday"'],
])('a file that cannot be used refuses the script: %s %j', (file, files, fault) => {
  const site = makeSite({ 'hourly/a': [`@except ${file}`], 'hourly/b': [] }, files);
  expect(told(site, 'list')).toContain(fault);
  expect(told(site, 'doctor')).toContain('1 script refused: hourly/a');
  expect(site.ran('hourly')).toEqual(['b']);
  expect(queryLog(site.root, `select outcome from runs where outcome <> 'succeeded'`)).toEqual([
    { outcome: 'not-started' },
  ]);
});

test('a script whose dates leave it no day is refused: it would wait for ever', () => {
  const files = { 'holidays.txt': '12-25\n', 'all.txt': '01-01 to 06-30\n', 'rest.txt': '07-01 to 12-31\n' };
  const scripts = {
    'daily/never': ['@schedule yearly on 25 december', '@except holidays.txt'],
    'daily/split': ['@except all.txt rest.txt'],
    'daily/night': ['@schedule yearly on 25 december', '@except all.txt'],
  };
  const site = makeSite(scripts, files);
  expect(told(site, 'list')).toContain(
    'refused: its @except "holidays.txt" is wrong: it never comes, as all of its days are in holidays.txt',
  );
  expect(told(site, 'doctor')).toContain('2 scripts refused: daily/never, daily/split');
});

test('a file whose last date is over is found, until it has further dates', () => {
  const over = `its file of dates holidays.txt ends on ${date(-3)}: add the coming dates`;
  const site = makeSite({ 'hourly/a': ['@except holidays.txt', UTC] }, { 'holidays.txt': `${date(-3)}\n` });
  expect(told(site, 'list')).toContain(over);
  expect(told(site, 'doctor')).toContain('probably a mistake in hourly/a');
  expect(site.ran('hourly')).toEqual(['a']);
  expect(told(site, 'check')).toContain(`hourly/a succeeded with a warning`);
  expect(told(site, 'check')).toContain(over);
  writeFiles(site.root, { 'holidays.txt': `${date(-3)}\n25 december\n` });
  expect(told(site, 'list')).not.toContain(over);
  site.ran('run', 'hourly/a');
  expect(told(site, 'check')).not.toContain('hourly/a');
});

test('a job whose file of dates is gone is found with each of its runs', () => {
  const files = { 'holidays.txt': '12-25\n', 'jobs/queue/report.sh': '#!/bin/sh\n' };
  const site = makeSite({}, files);
  expect(told(site, 'add', 'report', '--repeat', 'daily at 10:00 except holidays.txt')).toContain('Added job');
  const work = () => {
    changeLog(site.root, `update jobs set run_at = ${Date.now() - 60_000} where name = 'report'`);
    site.call('work');
    return told(site, 'check');
  };
  expect(work()).not.toContain('report');
  rmSync(join(site.root, 'holidays.txt'));
  expect(work()).toContain('queue/report succeeded with a warning');
  expect(work()).toContain(
    'its repeat rule "daily at 10:00 except holidays.txt" is wrong: holidays.txt does not exist',
  );
  writeFiles(site.root, { 'holidays.txt': '12-25\n' });
  work();
  const warned = queryLog<{ warning: string | null }>(site.root, 'select warning from runs order by id');
  expect(warned.map(({ warning }) => warning !== null)).toEqual([false, true, true, false]);
});

test('settings name files, as tags do; the file of a schedule is checked like one of a tag', () => {
  const settings = { defaults: { except: ['holidays.txt'], timezone: 'UTC' } };
  const files = { 'runner.config.json': JSON.stringify(settings), 'holidays.txt': holidays() };
  const site = makeSite({ 'hourly/a': [], 'hourly/b': ['@except other.txt'] }, { ...files, 'other.txt': '12-25\n' });
  expect(site.ran('hourly')).toEqual(['b']);
});

test.runIf(engine.name === 'sqlite')('without the log, a script is left out on its dates', () => {
  const site = makeSite({ 'hourly/a': ['@except holidays.txt', UTC], 'hourly/b': [] }, { 'holidays.txt': holidays() });
  expect(site.ran('hourly')).toEqual(['b']);
  const state = join(site.root, '.runner');
  renameSync(join(state, 'activity.db'), join(state, 'away'));
  mkdirSync(join(state, 'activity.db'));
  expect(site.ran('hourly')).toEqual(['b']);
});
