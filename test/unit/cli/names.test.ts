import { describe, expect, test } from 'vitest';
import { describeUnhandled } from '../../../src/commands/shared/names.ts';
import { findPausable } from '../../../src/report/model/pausables.ts';

const tier = (name: string, ...labels: string[]) => ({
  name,
  scripts: labels.map((label) => ({ name: `${name}/${label}` }) as never),
});

const known = {
  tiers: [tier('hourly', 'clean', 'mail'), tier('daily', 'backup', 'mail'), tier('15min')],
  jobNames: ['mail/welcome', 'export', 'backup'],
};

describe('what is to be paused is found', () => {
  test.each([
    ['hourly', 'hourly'],
    ['15min', '15min'],
    ['hourly/clean', 'hourly/clean'],
    ['clean', 'hourly/clean'],
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
  ])('%s is %s', (word, name) => {
    expect(findPausable(word, known)).toBe(name);
  });
});

test.each(['queue/', '[mail', 'queue/[mail'])('%j, which fits no name, is refused', (word) => {
  expect(() => findPausable(word, known)).toThrow(/^A pattern must be .*, found "/);
});

describe('what could be meant otherwise is refused', () => {
  test.each([
    ['mail', '"mail" is ambiguous (2 matches): hourly/mail, daily/mail. Write one of them in full'],
    ['backup', '"backup" is ambiguous (2 matches): daily/backup, queue/backup. Write one of them in full'],
    [
      'hourly/*',
      "`npx folder-runner pause hourly` pauses that tier, `npx folder-runner pause 'queue/hourly/*'` pauses jobs",
    ],
    ['houly', 'There is no tier, no script, no handler and no waiting job "houly"; did you mean hourly?'],
    ['mail/welcom', 'did you mean mail/welcome?'],
    ['zebra', '"zebra". `npx folder-runner list` shows them all; use queue/zebra for jobs that do not exist yet.'],
    ['zeb\u0007ra', '"zeb␇ra"'],
  ])('%j', (word, message) => {
    expect(() => findPausable(word, known)).toThrow(message);
  });
});

test.each([
  ['mail/welcom', ['mail/welcome', 'export'], 'did you mean mail/welcome?'],
  ['welcome', ['export', 'mail/welcome'], 'did you mean mail/welcome?'],
  ['mail/welcom?user=7', ['mail/welcome'], 'did you mean mail/welcome?'],
  ['other', ['mail/welcome'], 'has no handler for other here, so it waits for one.'],
  ['a\u001b[2Jb', [], 'has no handler for ab here'],
])('%j among %j', (name, handlers, text) => {
  expect(describeUnhandled(name, handlers)).toMatch(/^Note: jobs\/queue\//);
  expect(describeUnhandled(name, handlers)).toContain(text);
});
