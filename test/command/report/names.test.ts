import { describe, expect, test } from 'vitest';
import { describeUnhandled } from '../../../src/commands/shared/queue.ts';
import { Site } from '../../../src/discovery/site.ts';
import { findPausables, findScript } from '../../../src/report/names.ts';
import { inRoot } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { openReadApi } from '../../support/web/dashboard.ts';
import { writeLog } from '../../support/written-log.ts';

const sh = executable('#!/bin/sh\n');

const files = {
  'jobs/hourly/clean-tmp.sh': sh,
  'jobs/hourly/mail.sh': sh,
  'jobs/hourly/same.sh': sh,
  'jobs/daily/mail.sh': sh,
  'jobs/daily/same.sh': sh,
  'jobs/daily/backup.sh': sh,
  'jobs/daily/old.sh.disabled': sh,
  'jobs/15min/tick.sh': sh,
  'jobs/queue/mail/welcome.sh': sh,
  'jobs/queue/export.sh': sh,
  'jobs/queue/backup.sh': sh,
} as const;

/** The files, and a log that knows one script more. */
async function openSite(): Promise<Site> {
  const root = makeTemporaryRoot(files);
  const { store, addRun } = await writeLog(root);
  await addRun('hourly/gone', Date.now() - 1000);
  return new Site({ root, env: {}, nowMs: Date.now(), store, problem: null, crontab: async () => null });
}

describe('a script is found', () => {
  test.each([
    ['hourly/clean-tmp', 'hourly/clean-tmp'],
    ['clean-tmp', 'hourly/clean-tmp'],
    ['jobs/hourly/clean-tmp.sh', 'hourly/clean-tmp'],
    ['gone', 'hourly/gone'],
    ['old', 'daily/old'],
    ['mail/welcome', 'queue/mail/welcome'],
    ['mail/welcome?user=7', 'queue/mail/welcome'],
    ['queue/mail/welcome?user=7', 'queue/mail/welcome'],
  ])('by %s: %s', async (word, script) => {
    expect(await findScript(await openSite(), word)).toBe(script);
  });

  test('in the tier that is wanted alone', async () => {
    expect(await findScript(await openSite(), 'same', { tier: 'daily' })).toBe('daily/same');
  });
});

describe('what is to be paused is found', () => {
  test.each([
    ['hourly', 'hourly'],
    ['15min', '15min'],
    ['hourly/clean-tmp', 'hourly/clean-tmp'],
    ['clean-tmp', 'hourly/clean-tmp'],
    ['queue', 'queue'],
    ['*', 'queue'],
    ['mail/welcome', 'queue/mail/welcome'],
    ['export', 'queue/export'],
    ['mail/*', 'queue/mail/*'],
    ['expor?', 'queue/expor?'],
    ['[a-m]*', 'queue/[a-m]*'],
    ['queue/backup', 'queue/backup'],
    ['queue/not-here-yet', 'queue/not-here-yet'],
    ['queue/hourly/*', 'queue/hourly/*'],
    ['queue/*', 'queue'],
  ])('by %s: %s', async (word, name) => {
    expect(await findPausables(await openSite(), [word])).toEqual([name]);
  });

  test.each(['queue/', '[mail', 'queue/[mail'])('but not by %j, which fits no name', async (word) => {
    await expect(findPausables(await openSite(), [word])).rejects.toThrow(/^A pattern must be .*, found "/);
  });
});

const SCRIPTS = '`npx folder-runner list` shows all scripts, and which files are ignored, and why.';
const LOGGED = 'in jobs/ or in the log';

const script = (word: string, guess: string) => `There is no script "${word}" ${LOGGED}${guess} ${SCRIPTS}`;
const several = (word: string, names: string) =>
  `"${word}" is ambiguous (2 matches): ${names}. Write one of them in full.`;
const paused = (word: string, guess: string) =>
  `There is no tier, no script, no handler and no waiting job "${word}"${guess} ` +
  `\`npx folder-runner list\` shows them all; use queue/${word} for jobs that do not exist yet.`;

describe('a wrong name is refused in the same words by each command that takes one', () => {
  test.each([
    [['show', 'tail', 'report', 'metrics'], 'clean-temp', script('clean-temp', '; did you mean hourly/clean-tmp?')],
    [['show', 'report', 'metrics'], 'hourly/clean-tpm', script('hourly/clean-tpm', '; did you mean hourly/clean-tmp?')],
    [['show', 'report', 'metrics'], 'something', script('something', '.')],
    [['show', 'report'], 'a\u001b[2J\u0007', script('a␇', '.')],
    [['show', 'report', 'metrics', 'why', 'run', 'disable'], 'same', several('same', 'daily/same, hourly/same')],
    [['pause', 'resume'], 'mail', several('mail', 'hourly/mail, daily/mail')],
    [['pause', 'resume'], 'backup', several('backup', 'daily/backup, queue/backup')],
    [['pause', 'resume'], 'houly', paused('houly', '; did you mean hourly?')],
    [['pause', 'resume'], 'mail/welcom', paused('mail/welcom', '; did you mean mail/welcome?')],
    [['pause', 'resume'], 'zebra', paused('zebra', '.')],
    [
      ['show', 'report'],
      'hourly',
      '"hourly" is a tier, not a script: `npx folder-runner report --tier hourly` shows it.',
    ],
    [
      ['report --tier'],
      'houly',
      `There is no tier "houly" ${LOGGED}; did you mean hourly? \`npx folder-runner list\` shows all tiers.`,
    ],
    [
      ['mute'],
      'mail/welcom',
      'There is no script, handler or tier "mail/welcom"; did you mean mail/welcome? ' +
        '`npx folder-runner list` shows all scripts.',
    ],
  ])('%j %j', async (commands, word, message) => {
    const root = makeTemporaryRoot(files);
    for (const command of commands) {
      const { status, stderr } = await inRoot(root, ...command.split(' '), word);
      const sorted = (text: string) => text.replace(/(?<=: )\w+\/same, \w+\/same/, 'daily/same, hourly/same');
      expect({ command, status, stderr: sorted(stderr) }).toEqual({
        command,
        status: 2,
        stderr: `runner: ${message}\n`,
      });
    }
  });

  test.each([
    [['show', 'same'], '/api/scripts/same'],
    [['report', 'clean-temp'], '/api/scripts/clean-temp'],
    [['report', 'clean-temp'], '/api/runs?script=clean-temp'],
    [['report', 'hourly'], '/api/scripts/hourly'],
    [['report', '--tier', 'houly'], '/api/tiers/houly'],
    [['show', '999'], '/api/runs/999'],
  ])('%j is refused as %s is by the API, with 404', async (command, path) => {
    const root = makeTemporaryRoot(files);
    const { stderr } = await inRoot(root, ...command);
    const { status, detail } = await openReadApi(root).refused(path);
    expect({ status, detail }).toEqual({ status: 404, detail: stderr.trim().replace('runner: ', '') });
  });
});

test('a pattern that begins with a tier may mean the tier', async () => {
  await expect(findPausables(await openSite(), ['hourly/*'])).rejects.toThrow(
    "`npx folder-runner pause hourly` pauses that tier, `npx folder-runner pause 'queue/hourly/*'` pauses jobs",
  );
});

test.each([
  ['mail/welcom', ['mail/welcome', 'export'], 'did you mean mail/welcome?'],
  ['welcome', ['export', 'mail/welcome'], 'did you mean mail/welcome?'],
  ['mail/welcom?user=7', ['mail/welcome'], 'did you mean mail/welcome?'],
  ['other', ['mail/welcome'], 'has no handler for other here, so it waits for one.'],
  ['a\u001b[2Jb', [], 'has no handler for ab here'],
])('a job called %j waits for a handler among %j', (name, handlers, text) => {
  expect(describeUnhandled(name, handlers)).toMatch(/^Note: jobs\/queue\//);
  expect(describeUnhandled(name, handlers)).toContain(text);
});
