import { expect, test } from 'vitest';
import {
  pausedPattern,
  pauseNameOf,
  resumeCommandOf,
  wordsOfPaused,
} from '../../src/queue/pauses.ts';

test.each([
  ['*', '*', 'everything', 'runner resume'],
  ['queue', '*', 'the queue', 'runner resume queue'],
  ['queue/mail/*', 'mail/*', 'mail/*', "runner resume 'mail/*'"],
  ['queue/mail/welcome', 'mail/welcome', 'mail/welcome', 'runner resume mail/welcome'],
  ["queue/it's", "it's", "it's", String.raw`runner resume 'it'\''s'`],
  ['hourly', null, 'hourly', 'runner resume hourly'],
  ['hourly/clean-tmp', null, 'hourly/clean-tmp', 'runner resume hourly/clean-tmp'],
])('a pause named %s holds back jobs like %s, and is called %s', (name, pattern, words, resume) => {
  expect(pausedPattern(name)).toBe(pattern);
  expect(wordsOfPaused(name)).toBe(words);
  expect(resumeCommandOf(name)).toBe(resume);
  if (name !== '*' && pattern !== null) expect(pauseNameOf(pattern)).toBe(name);
});
