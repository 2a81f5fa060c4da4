import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { isNewToMail, isNewTrouble } from '../../../src/commands/run/failures.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { DAY_MS } from '../../support/alerts.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** A root, and what cron's mail has had at the time that a test says. */
function makePlace() {
  const root = makeTemporaryRoot({ 'jobs/hourly/notes.txt': '' });
  const clock = { at: 1_760_000_000_123 };
  const state = stateFolderOf(root);
  createStateFolder(state);
  const mailer = { root, state, settings: defaultSettings, now: () => clock.at };
  const notes = () => readdirSync(state.cache).filter((name) => name.startsWith('mailed-'));
  return { root, clock, state, mailer, notes };
}

function setFallbacks(temporary: string, home: string): void {
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv('TMPDIR', temporary);
  vi.stubEnv('XDG_STATE_HOME', home);
}

test('trouble is told once a day, whatever its numbers; notes that do not count any more are removed', () => {
  const { clock, mailer, notes } = makePlace();
  const full = (pid: number) => `No space left for activity.db (pid ${pid}).`;
  expect(isNewTrouble(mailer, full(4711))).toBe(true);
  expect(isNewTrouble(mailer, full(4712))).toBe(false);
  expect(isNewTrouble(mailer, 'The folder of 15min cannot be read.')).toBe(true);
  expect(isNewTrouble(mailer, 'The folder of 30min cannot be read.')).toBe(true);
  expect(notes()).toHaveLength(3);
  clock.at += DAY_MS - 1;
  expect(isNewTrouble(mailer, full(4713))).toBe(false);
  clock.at += 2;
  expect(isNewTrouble(mailer, full(4714))).toBe(true);
  expect(notes()).toHaveLength(1);
  // The clock was set back.
  clock.at -= DAY_MS;
  expect(isNewTrouble(mailer, full(4715))).toBe(true);
});

test('what cannot be noted in .runner is noted where its state goes else; without any place it is told each time', () => {
  const { root, state, mailer } = makePlace();
  rmSync(state.cache, { recursive: true });
  const temporary = join(root, 'tmp');
  mkdirSync(temporary, { mode: 0o700 });
  // Nothing can be made in a file.
  const none = join(root, 'jobs/hourly/notes.txt');
  setFallbacks(temporary, none);
  expect([1, 2].map(() => isNewToMail(mailer, 'full'))).toEqual([true, false]);
  setFallbacks(none, none);
  expect([1, 2].map(() => isNewToMail(mailer, 'full'))).toEqual([true, true]);
});
