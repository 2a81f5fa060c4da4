import { describe, expect, test } from 'vitest';
import { assertOptions, type JobSubcommand, readVerb } from '../../../src/commands/jobs/job.ts';

const taken: Readonly<Record<JobSubcommand, readonly string[]>> = {
  finish: ['result', 'data', 'token'],
  retry: ['delay', 'at', 'priority', 'name', 'data', 'reason', 'ignoreRepeat', 'token'],
  fail: ['reason', 'data', 'token'],
  bury: ['reason', 'priority', 'token'],
  kick: [],
  cancel: [],
  touch: ['lease', 'token'],
  delete: ['token'],
  update: ['data', 'priority', 'at', 'repeat', 'token'],
  requeue: ['name', 'forgetTry'],
};
const verbs = Object.keys(taken) as JobSubcommand[];
const options = [...new Set(Object.values(taken).flat())];

test.each(verbs)('%s is a verb, and takes its own options alone', (verb) => {
  expect(readVerb(verb)).toBe(verb);
  for (const option of options) {
    const check = (): void => assertOptions(verb, { [option]: 'x', json: true, root: '/x' });
    if (taken[verb].includes(option)) expect(check).not.toThrow();
    else expect(check, option).toThrow(`\`npx folder-runner job <id> ${verb}\` takes no --`);
  }
});

describe('wrong use is told in one sentence:', () => {
  test.each([
    ['finsh', 'found "finsh"; did you mean finish?'],
    ['explode', 'needs one of finish, retry, fail, bury, kick, cancel'],
    ['constructor', 'found "constructor"'],
  ])('%s is no verb', (word, message) => {
    expect(() => readVerb(word)).toThrow(message);
  });

  test('what a verb takes instead', () => {
    expect(() => assertOptions('touch', { result: '{}' })).toThrow(
      '`npx folder-runner job <id> touch` takes no --result; it takes --lease, --token, --json.',
    );
    expect(() => assertOptions('cancel', { reason: 'x' })).toThrow('it takes --json.');
  });

  test('which verbs an option goes with', () => {
    expect(() => assertOptions(null, { delay: '1m' })).toThrow(
      '--delay goes with a verb: `npx folder-runner job <id> retry --delay …`.',
    );
    expect(() => assertOptions(null, { json: true })).not.toThrow();
  });
});
