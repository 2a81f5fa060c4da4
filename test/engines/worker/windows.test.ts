import { mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { makeLinkedSite as makeSite } from '../../support/linked-site.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { writeFiles } from '../../support/root.ts';

/* Scripts with `@between`, which wait for their time of day. */

const HOUR = 3_600_000;

/** A tag by which a script may start between two moments, in hours from now. */
function between(from: number, to: number): string {
  const [begins, ends] = [from, to].map((hours) => new Date(Date.now() + hours * HOUR).toISOString().slice(11, 16));
  return `@between ${begins} and ${ends}`;
}

const UTC = '@timezone UTC';
const shut = between(3, 5);
const open = between(-2, 2);

/** Gives a script of the site another window. */
function reopen(site: ReturnType<typeof makeSite>, name: string, from: string, to: string): void {
  const path = `jobs/${name}.sh`;
  writeFiles(site.root, { [path]: readFileSync(join(site.root, path), 'utf8').replace(from, to) });
}

test('a script that is due outside of its window waits for it; times that pass meanwhile are one run', () => {
  const site = makeSite({ 'hourly/a': [shut, UTC], 'hourly/b': [], 'daily/c': [] });
  expect(site.ran('hourly')).toEqual(['b']);
  expect(site.ran('hourly')).toEqual(['b']);
  expect(site.job('hourly/a')).toMatchObject({ state: 'queued', links_met: 0 });
  reopen(site, 'hourly/a', shut, open);
  // The first pass of any tier runs it.
  expect(site.ran('daily').toSorted()).toEqual(['a', 'c']);
  expect(site.ran('daily')).toEqual(['c']);
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});

test('a retry that is due outside of the window waits for it, too', () => {
  const site = makeSite({ 'hourly/a': [open, UTC, '@retries 1', '@retry-delay 1s'], 'daily/b': [] });
  site.fail('a');
  expect(site.ran('hourly')).toEqual(['a']);
  changeLog(site.root, `update jobs set run_at = 1000 where state = 'retrying'`);
  site.mend('a');
  reopen(site, 'hourly/a', open, shut);
  expect(site.ran('hourly')).toEqual([]);
  const { stdout } = site.call('why', 'hourly/a');
  expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(
    /It will be retried by the first call of any tier after .*\d\d:\d\d\./,
  );
  expect(site.job('hourly/a')).toMatchObject({ state: 'retrying' });
  reopen(site, 'hourly/a', shut, open);
  expect(site.ran('daily').toSorted()).toEqual(['a', 'b']);
});

test('a script of a chain runs once the others have ended and its window is open', () => {
  const site = makeSite({
    'hourly/a': [],
    'hourly/b': ['@after a', shut, UTC],
    'hourly/c': ['@after b'],
    'daily/d': [],
  });
  expect(site.ran('hourly')).toEqual(['a']);
  expect(site.job('hourly/b')).toMatchObject({ state: 'queued', links_met: 0, ends_used: null });
  reopen(site, 'hourly/b', shut, open);
  expect(site.ran('daily').toSorted()).toEqual(['b', 'c', 'd']);
  // The success was used once.
  expect(site.ran('hourly')).toEqual(['a', 'b', 'c']);
});

test('what others have let run, and did not begin, waits for the window again', () => {
  const site = makeSite({ 'hourly/a': [], 'hourly/b': ['@after a', open, UTC] });
  site.fail('b');
  expect(site.ran('hourly')).toEqual(['a', 'b']);
  // As a pass leaves it that was killed between the two.
  changeLog(site.root, `update jobs set state = 'queued', finished_at = null, attempts = 0 where name = 'hourly/b'`);
  expect(site.job('hourly/b')).toMatchObject({ state: 'queued', links_met: 1 });
  site.mend('b');
  reopen(site, 'hourly/b', open, shut);
  expect(site.ran('hourly')).toEqual(['a']);
  expect(site.call('status').stdout.replaceAll(/\s+/g, ' ')).toMatch(/hourly\/b · waits until .*, as its @between/);
  reopen(site, 'hourly/b', shut, open);
  expect(site.ran('hourly')).toEqual(['b', 'a']);
});

test('list, why, status, report and dry-run say for which time a script waits; run does not wait', () => {
  const site = makeSite({ 'hourly/a': [shut, UTC], 'hourly/b': [open, UTC] });
  const told = (...args: readonly string[]) => {
    const { stdout, stderr } = site.call(...args);
    return `${stdout}${stderr}`.replaceAll(/\s+/g, ' ');
  };
  expect(told('list')).toContain(`between ${shut.slice(9)} · by the clock of UTC`);
  const window = shut.slice(9);
  expect(told('hourly', '--dry-run')).toMatch(
    new RegExp(`1 hourly/b .* - hourly/a · waits until .*\\d\\d:\\d\\d, as its @between ${window} says`),
  );
  site.call('hourly');
  const waits = new RegExp(`waits until [^;]*\\d\\d:\\d\\d, as its @between ${window} says; queued since`);
  for (const view of ['status', 'report']) expect(told(view)).toMatch(waits);
  expect(told('why', 'hourly/a')).toMatch(waits);
  expect(told('why', 'hourly/a')).toMatch(/and will run with the first call of any tier after that\./);
  expect(told('why', 'hourly/b')).toContain('it may start at this time of day');
  expect(told('run', 'hourly/a')).toMatch(
    /Note: hourly\/a waits until .*; it runs all the same, because you named it\./,
  );
  expect(site.job('hourly/a')).toMatchObject({ state: 'finished', links_met: 1 });
});

test.each([
  ['@between 10pm and 5am', 'did you mean @between 22:00 and 05:00?'],
  ['@between 22:00-05:00', 'did you mean @between 22:00 and 05:00?'],
  ['@between 22:00 and 05:00 in Europe/Berlin', 'the zone has a tag of its own: @timezone Europe/Berlin'],
  ['@between night', 'between needs two times such as between 22:00 and 05:00, found "night"'],
  ['@between 05:00 and 05:00', 'between needs two different times'],
  ['@between', '@between must be two times of the day such as 22:00 and 05:00'],
  [`${open}\n# @timezone Berlin`, '@timezone needs a time zone such as Europe/Berlin'],
])('%s is refused, by list and by the pass', (tag, fault) => {
  const site = makeSite({ 'hourly/a': [tag] });
  expect(site.call('list').stdout.replaceAll(/\s+/g, ' ')).toContain(fault);
  expect(site.ran('hourly')).toEqual([]);
  expect(queryLog(site.root, 'select outcome from runs')).toEqual([{ outcome: 'not-started' }]);
});

test('settings give windows, and the zone of a schedule is that of its script', () => {
  const settings = { tiers: { hourly: { between: shut.slice(9), timezone: 'UTC' } } };
  const site = makeSite({ 'hourly/a': [] }, { 'runner.config.json': JSON.stringify(settings) });
  expect(site.ran('hourly')).toEqual([]);
  expect(site.job('hourly/a')).toMatchObject({ state: 'queued' });
});

test.each(['hourly', 'weekly'])('a window that no pass comes into for more than a day is found: %s', (tier) => {
  const site = makeSite({ [`${tier}/a`]: [shut, UTC] });
  site.ran(tier);
  expect(site.call('check').stdout).not.toContain(`${tier}/a`);
  changeLog(site.root, `update jobs set run_at = run_at - ${30 * HOUR} where name = '${tier}/a'`);
  expect(site.call('check').stdout.replaceAll(/\s+/g, ' ')).toContain(
    `${tier}/a has waited for 1d 6h: no pass came between ${shut.slice(9)}`,
  );
});

test.runIf(engine.name === 'sqlite')('without the log, a script is left out outside of its window', () => {
  const site = makeSite({ 'hourly/a': [shut, UTC], 'hourly/b': [] });
  expect(site.ran('hourly')).toEqual(['b']);
  const state = join(site.root, '.runner');
  renameSync(join(state, 'activity.db'), join(state, 'away'));
  mkdirSync(join(state, 'activity.db'));
  expect(site.ran('hourly')).toEqual(['b']);
  reopen(site, 'hourly/a', shut, open);
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});
