import { describe, expect, test } from 'vitest';
import {
  findPause,
  pause,
  pausedPattern,
  pausedPatterns,
  pauseNameOf,
  resumeCommandOf,
  wordsOfPaused,
} from '../../../src/queue/pauses.ts';
import type { Pause } from '../../../src/store/statements/pauses.ts';
import type { PauseKind } from '../../../src/store/words.ts';
import { HOUR_MS, openTestQueue, START } from '../../support/queue.ts';

const named = (...names: string[]): Pause[] =>
  names.map((name) => ({ name, kind: 'pause', until: null, createdAt: START, by: null }));

test.each([
  ['hourly/a', ['hourly'], 'hourly'],
  ['hourly/a', ['hourly/a'], 'hourly/a'],
  ['hourly/a', ['hourly/*'], null],
  ['hourly/a', ['queue/*', 'daily'], null],
  ['queue/mail/a', ['queue/mail/*'], 'queue/mail/*'],
  ['queue/mail/a', ['queue/mail'], null],
  ['queue/mail/a', ['queue/*/a'], 'queue/*/a'],
  ['queue/mail/a', ['queue/mail/*', 'queue'], 'queue'],
  ['queue/mail/a', ['queue/MAIL/*'], null],
  ['queue/mail/a', ['*', 'queue'], '*'],
  ['queue', ['queue/*'], null],
])('%s is kept back of %j by %s', (name, pauses, by) => {
  expect(findPause(named(...pauses), name)?.name ?? null).toBe(by);
});

test('pauses that hold jobs and pauses that fail them are separate globs over names', async () => {
  const { store } = await openTestQueue();
  const add = (name: string, kind: PauseKind, until: number | null = null) =>
    store.transaction((session) => pause(session, [{ name, kind, until, createdAt: START, by: null }]));
  const patternsAt = async (at: number) => pausedPatterns(await store.pauses.inForce(at));
  await add('hourly', 'pause');
  await add('queue/mail/*', 'pause');
  await add('queue/export', 'fail-fast', START + 2);
  await add('queue/over', 'fail-fast', START + 1);
  expect(await patternsAt(START + 1)).toEqual({ paused: ['mail/*'], failFast: ['export'] });
  await add('*', 'pause');
  await add('queue', 'fail-fast');
  expect(await patternsAt(START)).toEqual({ paused: ['*', 'mail/*'], failFast: ['*', 'export', 'over'] });
});

describe('Queue.pause', () => {
  test('keeps jobs of a pattern from being taken until they are resumed', async () => {
    const { queue } = await openTestQueue();
    await queue.addMany([{ name: 'mail/a', priority: 900 }, { name: 'export' }]);
    await queue.pause('mail/*');
    expect(await queue.claim()).toMatchObject({ name: 'export' });
    expect(await queue.claim()).toBeNull();
    expect(await queue.resume('mail/*')).toBe(true);
    expect(await queue.claim()).toMatchObject({ name: 'mail/a' });
    expect(await queue.resume('mail/*')).toBe(false);
  });

  test('ends by itself; pausing again replaces it', async () => {
    const { queue, clock } = await openTestQueue();
    await queue.add('a');
    await queue.pause('a');
    await queue.pause('a', { for: '1h' });
    clock.at += HOUR_MS - 1;
    expect(await queue.claim()).toBeNull();
    clock.at += 1;
    expect(await queue.claim()).not.toBeNull();
    expect(await queue.resume('a')).toBe(false);
  });

  test.each([
    ['', {}],
    [7, {}],
    ['a', { for: 'long' }],
    ['a', { for: '' }],
  ])('%j, %j is refused', async (pattern, options) => {
    const { queue, dump } = await openTestQueue();
    const before = dump();
    const paused = queue.pause(pattern as string, options);
    await expect(paused).rejects.toMatchObject({ code: 'invalid' });
    expect(dump()).toBe(before);
  });
});

test.each([
  ['*', '*', 'everything', 'npx folder-runner resume'],
  ['queue', '*', 'the queue', 'npx folder-runner resume queue'],
  ['queue/mail/*', 'mail/*', 'mail/*', "npx folder-runner resume 'mail/*'"],
  ['queue/mail/welcome', 'mail/welcome', 'mail/welcome', 'npx folder-runner resume mail/welcome'],
  ["queue/it's", "it's", "it's", String.raw`npx folder-runner resume 'it'\''s'`],
  ['hourly', null, 'hourly', 'npx folder-runner resume hourly'],
  ['hourly/clean-tmp', null, 'hourly/clean-tmp', 'npx folder-runner resume hourly/clean-tmp'],
])('a pause named %s holds back jobs like %s, and is called %s', (name, pattern, words, resume) => {
  expect(pausedPattern(name)).toBe(pattern);
  expect(wordsOfPaused(name)).toBe(words);
  expect(resumeCommandOf(name)).toBe(resume);
  if (name !== '*' && pattern !== null) expect(pauseNameOf(pattern)).toBe(name);
});
