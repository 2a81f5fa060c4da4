import { expect, test } from 'vitest';
import { findRecordedScript } from '../../../src/report/model/runs/history.ts';
import { parseOutcomes } from '../../../src/report/text/filters.ts';

const scripts = ['hourly/clean-tmp', 'daily/backup', 'hourly/backup', 'queue/mail/welcome'];

test.each([
  ['hourly/clean-tmp', 'hourly/clean-tmp'],
  ['clean-tmp', 'hourly/clean-tmp'],
  ['mail/welcome', 'queue/mail/welcome'],
  ['mail/welcome?user=7', 'queue/mail/welcome'],
  ['queue/mail/welcome?user=7', 'queue/mail/welcome'],
])('%s means %s', (word, script) => {
  expect(findRecordedScript(word, scripts)).toBe(script);
});

test.each([
  ['hourly/clean-tpm', 'There is no script "hourly/clean-tpm" in jobs/ or in the log; did you mean hourly/clean-tmp?'],
  ['clean-temp', 'There is no script "clean-temp" in jobs/ or in the log; did you mean hourly/clean-tmp?'],
  ['something', 'There is no script "something" in jobs/ or in the log; `npx folder-runner list` names them all.'],
  ['hourly', '"hourly" is a tier, not a script: `npx folder-runner report --tier hourly` shows it.'],
  ['backup', '"backup" is the name of 2 scripts: daily/backup, hourly/backup. Name one of them with its tier.'],
])('%s is refused with a hint', (word, message) => {
  expect(() => findRecordedScript(word, scripts)).toThrow(message);
});

test('a name from outside cannot reach the terminal raw', () => {
  expect(() => findRecordedScript('a\x1b[2J\x07', scripts)).toThrow('no script "a␇"');
});

test('outcomes are named one by one, and a slip is pointed out', () => {
  expect(parseOutcomes('failed, timed-out')).toEqual(['failed', 'timed-out']);
  expect(() => parseOutcomes('faild')).toThrow('found "faild"; did you mean failed?');
  expect(() => parseOutcomes('')).toThrow(
    '--outcome must be one of succeeded, failed, timed-out, killed, crashed, not-started, released, running',
  );
});
