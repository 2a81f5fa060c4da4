import { mkdirSync, renameSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeLinkedSite } from '../../support/linked-site.ts';
import { changeLog, testOfSqlite } from '../../support/log.ts';
import { writeFiles } from '../../support/root.ts';

/* Scripts that wait for others, where several run at a time, or the log is lost. */

test('scripts that wait for the same one run at the same time', () => {
  const site = makeLinkedSite({ 'hourly/a': [] }, { 'runner.config.json': '{ "concurrency": 2 }' });
  // Each goes on until the other one has begun.
  const waitingFor = (name: string, other: string) =>
    `#!/bin/sh\n# @after a\necho ${name} >> ran\n` +
    `for i in $(seq 100); do grep -q ^${other} ran && exit; sleep 0.1; done\nexit 1\n`;
  writeFiles(site.root, { 'jobs/hourly/b.sh': waitingFor('b', 'c'), 'jobs/hourly/c.sh': waitingFor('c', 'b') });
  expect(site.call('hourly')).toMatchObject({ status: 0 });
});

test('of a script whose wait is over, and that was never tried, why says that it will run', () => {
  const site = makeLinkedSite({ 'daily/x': ['@after exec/bk'], 'hourly/y': [] });
  expect(site.ran('daily')).toEqual([]);
  expect(site.call('exec', 'bk', '--', 'true')).toMatchObject({ status: 0 });
  const told = site.call('why', 'daily/x').stdout.replaceAll(/\s+/g, ' ');
  expect(told).toMatch(/job queued since .*; what it waited for has come/);
  expect(told).toContain('It will run with the next call of any tier: what it waited for has come.');
  expect(site.ran('hourly')).toEqual(['y', 'x']);
});

testOfSqlite('an end of this machine that was used without the log is used once', () => {
  const site = makeLinkedSite({ 'hourly/a': ['@every-host'], 'hourly/b': ['@after a'] });
  expect(site.ran('hourly')).toEqual(['a', 'b']);
  const state = join(site.root, '.runner');
  renameSync(join(state, 'activity.db'), join(state, 'away'));
  mkdirSync(join(state, 'activity.db'));
  expect(site.ran('hourly')).toEqual(['a', 'b']);
  rmdirSync(join(state, 'activity.db'));
  renameSync(join(state, 'away'), join(state, 'activity.db'));
  site.call('pause', 'hourly/a');
  expect(site.ran('hourly')).toEqual([]);
  site.call('resume', 'hourly/a');
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});

testOfSqlite('an end that the log has, but of which it cannot note the use, is used once', () => {
  const site = makeLinkedSite({ 'hourly/a': [], 'hourly/b': ['@after a'] });
  expect(site.ran('hourly')).toEqual(['a', 'b']);
  const refuse = `before update on jobs when new.links_met = 1 begin select raise(abort, 'no'); end`;
  changeLog(site.root, `create trigger refuse ${refuse}`);
  expect(site.ran('hourly')).toEqual(['a', 'b']);
  changeLog(site.root, 'drop trigger refuse');
  site.call('pause', 'hourly/a');
  expect(site.ran('hourly')).toEqual([]);
  site.call('resume', 'hourly/a');
  expect(site.ran('hourly')).toEqual(['a', 'b']);
});
