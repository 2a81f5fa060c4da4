import { mkdirSync, renameSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { makeLinkedSite as makeSite } from '../../support/linked-site.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { writeFiles } from '../../support/root.ts';

/*
 * Scripts that wait for others, with `@after`, `@after-failure` and `@always`. A person calls: on a server, cron's calls
 * of one hour would be one.
 */

test('a script runs in the same pass, right behind the one that it waits for', () => {
  const site = makeSite({ 'hourly/a-report': ['@after z-fetch'], 'hourly/b': [], 'hourly/z-fetch': [] });
  expect(site.ran('hourly')).toEqual(['b', 'z-fetch', 'a-report']);
  expect(site.ran('hourly')).toEqual(['b', 'z-fetch', 'a-report']);
});

test('a chain of several, each behind the one before, is run by one pass', () => {
  const site = makeSite({ 'hourly/1-c': ['@after 2-b'], 'hourly/2-b': ['@after 3-a'], 'hourly/3-a': [] });
  expect(site.ran('hourly')).toEqual(['3-a', '2-b', '1-c']);
});

test('a script waits while the other one has failed, and the next pass of any tier goes on', () => {
  const site = makeSite({ 'hourly/a': [], 'daily/sum': ['@after hourly/a'] });
  site.fail('a');
  expect(site.ran('hourly')).toEqual(['a']);
  expect(site.ran('daily')).toEqual([]);
  expect(site.job('daily/sum')).toMatchObject({ state: 'queued', links_met: 0 });
  site.mend('a');
  expect(site.ran('hourly')).toEqual(['a', 'sum']);
  expect(site.job('daily/sum')).toMatchObject({ state: 'finished' });
});

test('a retry that is to come is no end', () => {
  const site = makeSite({
    'hourly/a': ['@retries 1', '@retry-delay 1s'],
    'hourly/b': ['@after a'],
    'hourly/c': ['@after-failure a'],
  });
  site.fail('a');
  expect(site.ran('hourly')).toEqual(['a']);
  changeLog(site.root, `update jobs set run_at = 1000 where state = 'retrying'`);
  expect(site.ran('hourly')).toEqual(['a', 'c']);
});

test('one success is used once: a script of a more frequent tier waits for the next one', () => {
  const site = makeSite({ 'daily/dump': [], 'hourly/copy': ['@after daily/dump'] });
  expect(site.ran('hourly')).toEqual([]);
  expect(site.ran('daily')).toEqual(['dump', 'copy']);
  expect(site.ran('hourly')).toEqual([]);
  expect(site.ran('hourly')).toEqual([]);
  // It was queued once for all these hours.
  expect(site.ran('daily')).toEqual(['dump', 'copy']);
  expect(queryLog(site.root, `select id from runs where attempt = 1`)).toHaveLength(4);
});

test('each of several must have succeeded since', () => {
  const site = makeSite({ 'hourly/a': [], 'daily/b': [], 'hourly/c': ['@after a daily/b'] });
  expect(site.ran('hourly')).toEqual(['a']);
  expect(site.ran('daily')).toEqual(['b', 'c']);
  expect(site.ran('hourly')).toEqual(['a']);
  expect(site.ran('daily')).toEqual(['b', 'c']);
});

test('globs and names of files are names, too, on several lines', () => {
  const site = makeSite({
    'hourly/get-1': [],
    'hourly/get-2': [],
    'daily/x': [],
    'hourly/a': ['@after get-*', '@after jobs/daily/x.sh'],
  });
  expect(site.ran('hourly')).toEqual(['get-1', 'get-2']);
  expect(site.ran('daily')).toEqual(['x', 'a']);
});

test('after a failure, one of several is enough; any end is enough for @always', () => {
  const site = makeSite({
    'hourly/a': [],
    'hourly/b': ['@after a'],
    'hourly/c-alarm': ['@after-failure a b'],
    'hourly/d-clean': ['@always a'],
  });
  expect(site.ran('hourly')).toEqual(['a', 'b', 'd-clean']);
  site.fail('a');
  expect(site.ran('hourly')).toEqual(['a', 'c-alarm', 'd-clean']);
  // The same failure is used once.
  expect(site.ran('run', 'hourly/b')).toEqual(['b']);
  site.mend('a');
  site.fail('b');
  expect(site.ran('hourly')).toEqual(['a', 'b', 'c-alarm', 'd-clean']);
});

test('all conditions of a script must hold', () => {
  const site = makeSite({ 'hourly/a': [], 'hourly/b': [], 'hourly/c': ['@after a', '@after-failure b'] });
  expect(site.ran('hourly')).toEqual(['a', 'b']);
  site.fail('b');
  expect(site.ran('hourly')).toEqual(['a', 'b', 'c']);
});

test('run by hand, a script waits for nothing, and uses the ends that there are', () => {
  const site = makeSite({ 'hourly/a': [], 'daily/b': ['@after hourly/a'] });
  expect(site.ran('run', 'daily/b')).toEqual(['b']);
  expect(site.ran('hourly')).toEqual(['a']);
  expect(site.ran('run', 'daily/b')).toEqual(['b']);
  expect(site.ran('daily')).toEqual([]);
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});

test('a script run by hand that waits already is that job: it does not run once more', () => {
  const site = makeSite({ 'hourly/a': [], 'daily/b': ['@after hourly/a'] });
  expect(site.ran('daily')).toEqual([]);
  expect(site.ran('run', 'daily/b')).toEqual(['b']);
  expect(site.ran('hourly')).toEqual(['a']);
});

test('a paused or disabled script keeps those that wait for it, and ends the wait once it runs', () => {
  const site = makeSite({ 'hourly/a': [], 'hourly/b': ['@after a'] });
  site.call('pause', 'hourly/a');
  expect(site.ran('hourly')).toEqual([]);
  site.call('resume', 'hourly/a');
  site.call('disable', 'hourly/a');
  expect(site.ran('hourly')).toEqual([]);
  site.call('enable', 'hourly/a');
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});

test('a paused script is not freed by the end of another one, and runs after its pause', () => {
  const site = makeSite({ 'hourly/a': [], 'daily/b': ['@after hourly/a'] });
  expect(site.ran('daily')).toEqual([]);
  site.call('pause', 'daily/b');
  expect(site.ran('hourly')).toEqual(['a']);
  site.call('resume', 'daily/b');
  site.fail('a');
  // The success has its run no more: the script that it was for has failed since.
  expect(site.ran('hourly')).toEqual(['a']);
  site.mend('a');
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});

test('a paused script does not use a success that a failure has followed', () => {
  const site = makeSite({ 'hourly/a': [], 'daily/b': ['@after hourly/a'] });
  expect(site.ran('daily')).toEqual([]);
  site.call('pause', 'daily/b');
  expect(site.ran('hourly')).toEqual(['a']);
  site.fail('a');
  expect(site.ran('hourly')).toEqual(['a']);
  site.call('resume', 'daily/b');
  expect(site.ran('daily')).toEqual([]);
  site.mend('a');
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});

test('what a stopped pass leaves free is not lost, and not used twice', () => {
  const site = makeSite({ 'hourly/a': [], 'hourly/b': ['@after a'], 'hourly/c': ['@after b'] });
  expect(site.ran('hourly')).toEqual(['a', 'b', 'c']);
  // As after a kill between the moment when its links were met, and its start.
  changeLog(site.root, `update jobs set state = 'queued', finished_at = null, attempts = 0 where name = 'hourly/c'`);
  expect(site.job('hourly/c')).toMatchObject({ state: 'queued', links_met: 1 });
  site.fail('a');
  expect(site.ran('hourly')).toEqual(['c', 'a']);
  expect(site.ran('hourly')).toEqual(['a']);
});

test('a clock that is set back makes no end old, and none new', () => {
  const site = makeSite({ 'hourly/a': [], 'daily/b': ['@after hourly/a'] });
  const later = Date.now() + 86_400_000;
  expect(site.ran('hourly')).toEqual(['a']);
  changeLog(site.root, `update jobs set finished_at = ${later} where name = 'hourly/a'`);
  expect(site.ran('daily')).toEqual(['b']);
  expect(site.ran('daily')).toEqual([]);
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});

test('at the same time as others, a script starts as soon as its own one has ended', () => {
  const settings = { 'runner.config.json': '{ "concurrency": 2 }' };
  const site = makeSite({ 'hourly/c': ['@after a'], 'hourly/a': [] }, settings);
  // This one goes on until the script that waited has run.
  writeFiles(site.root, {
    'jobs/hourly/b.sh':
      '#!/bin/sh\nfor i in $(seq 200); do grep -q ^c ran 2>/dev/null && echo b >> ran && exit; sleep 0.1; done\nexit 1\n',
  });
  expect(site.ran('hourly')).toEqual(['a', 'c', 'b']);
});

test.each([
  [
    'an unknown name',
    ['@after fech'],
    'jobs/hourly/x.sh: @after names fech, and there is no such script; did you mean hourly/fetch?',
  ],
  ['itself', ['@always x'], 'jobs/hourly/x.sh: @always names x, which is this script itself; remove that name'],
  [
    'a glob that fits nothing',
    ['@after-failure daily/im*'],
    'jobs/hourly/x.sh: @after-failure names daily/im*, which fits no script',
  ],
  [
    'a handler',
    ['@after queue/mail'],
    'jobs/hourly/x.sh: @after names queue/mail, a handler of jobs, which has no end to wait for',
  ],
  [
    'a circle',
    ['@after daily/y'],
    'jobs/hourly/x.sh: it waits for itself: hourly/x waits for daily/y waits for hourly/x; remove one of these tags',
  ],
])('%s is refused, by the pass and by list', (_, tags, refusal) => {
  const site = makeSite(
    { 'hourly/fetch': [], 'hourly/x': tags, 'daily/y': ['@after hourly/x'] },
    { 'jobs/queue/mail.sh': '#!/bin/sh\n' },
  );
  const { status, stderr } = site.call('hourly');
  expect(status).toBe(1);
  expect(stderr.replace(/\s+/g, ' ')).toContain(refusal);
  expect(site.call('list').stdout.replace(/\s+/g, ' ')).toContain(refusal);
  expect(
    queryLog(site.root, `select outcome from runs join scripts on scripts.id = script_id where name = 'hourly/x'`),
  ).toEqual([{ outcome: 'not-started' }]);
});

test('a command that only the log knows may be named before it has ever run', () => {
  const site = makeSite({ 'hourly/x': ['@after exec/backup'] });
  expect(site.ran('hourly')).toEqual([]);
  expect(site.job('hourly/x')).toMatchObject({ state: 'queued', links_met: 0 });
});

test('settings name what scripts wait for, as tags do', () => {
  const config = { scripts: { 'daily/b': { after: 'hourly/a', always: ['hourly/c'] } } };
  const site = makeSite(
    { 'hourly/a': [], 'daily/b': [], 'hourly/c': [] },
    { 'runner.config.json': JSON.stringify(config) },
  );
  expect(site.ran('daily')).toEqual([]);
  site.fail('c');
  expect(site.ran('hourly')).toEqual(['a', 'c', 'b']);
});

test('why, status, dry-run and run say what a script waits for', () => {
  const site = makeSite({
    'hourly/a': [],
    'hourly/b': ['@after a'],
    'hourly/c': ['@after-failure b'],
    'daily/d': ['@after hourly/b'],
  });
  const told = (...args: readonly string[]) => {
    const { stdout, stderr } = site.call(...args);
    return `${stdout}${stderr}`.replaceAll(/\s+/g, ' ');
  };
  site.fail('a');
  site.call('hourly');
  site.call('daily');
  expect(told('why', 'hourly/b')).toMatch(
    /it waits for hourly\/a, which failed .*; queued since .*runs once that is so/,
  );
  expect(told('why', 'hourly/c')).toContain('it waits for a failure of hourly/b');
  expect(told('why', 'daily/d')).toContain(
    'It waits for hourly/b, which waits for others itself, and runs once that is so.',
  );
  for (const view of [told('status'), told('report')]) {
    expect(view).toMatch(/waits for hourly\/a, which failed \d\d? \w+ \d\d:\d\d; queued since \d/);
    expect(view).toMatch(/waits for a failure of hourly\/b; queued since/);
    expect(view).toContain('waits for hourly/b, which waits for others itself; queued since');
  }
  expect(told('daily', '--dry-run')).toContain('daily/d · waits for hourly/b, which waits for others itself');
  expect(told('hourly', '--dry-run')).toMatch(
    /1 hourly\/a .* 2 hourly\/b .* - hourly\/c · waits for a failure of hourly\/b/,
  );
  expect(told('run', 'daily/d')).toContain(
    'Note: daily/d waits for hourly/b, which waits for others itself; it runs all the same',
  );
  site.call('pause', 'hourly/a');
  expect(told('why', 'hourly/b')).toContain('it waits for hourly/a, which is paused');
  site.call('resume', 'hourly/a');
  site.call('disable', 'hourly/a');
  expect(told('why', 'hourly/b')).toContain('it waits for hourly/a, which is disabled');
});

test.runIf(engine.name === 'sqlite')(
  'without the log, scripts wait for those of the same pass, and each end counts once all the same',
  () => {
    const site = makeSite({
      'hourly/a': [],
      'hourly/b': ['@after a'],
      'hourly/c': ['@after-failure a'],
      'hourly/d': ['@after daily/e'],
      'daily/e': [],
      'daily/f': ['@after hourly/b'],
    });
    expect(site.ran('hourly')).toEqual(['a', 'b']);
    const state = join(site.root, '.runner');
    renameSync(join(state, 'activity.db'), join(state, 'away'));
    mkdirSync(join(state, 'activity.db'));
    const { stderr } = site.call('hourly');
    expect(stderr).toContain('hourly/d waits for scripts whose ends only the log knows');
    expect(site.ran('hourly')).toEqual(['a', 'b']);
    site.fail('a');
    expect(site.ran('hourly')).toEqual(['a', 'c']);
    site.mend('a');
    expect(site.ran('hourly')).toEqual(['a', 'b']);
    rmdirSync(join(state, 'activity.db'));
    renameSync(join(state, 'away'), join(state, 'activity.db'));
    expect(site.ran('daily')).toEqual(['e', 'f', 'd']);
    // The last success of a was used without the log.
    expect(site.job('hourly/b')?.ends_used).toContain('hourly/a');
    site.call('pause', 'hourly/a');
    expect(site.ran('hourly')).toEqual([]);
  },
);
