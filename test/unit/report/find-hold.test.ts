import { expect, test } from 'vitest';
import { findHold } from '../../../src/report/text/words.ts';
import type { Pause } from '../../../src/store/statements/pauses.ts';

const pause = (name: string): Pause => ({ name, kind: 'pause', until: null, createdAt: 0 });
const failing = (name: string): Pause => ({ ...pause(name), kind: 'fail-fast' });
const job = { name: 'mail/welcome', state: 'queued' } as const;

test.each([
  [[pause('*')], '*'],
  [[pause('queue')], 'queue'],
  [[pause('queue/mail/*')], 'queue/mail/*'],
  [[pause('queue/export'), pause('mail'), pause('hourly')], null],
  [[failing('queue'), pause('queue/mail/welcome')], 'queue/mail/welcome'],
  [[failing('queue/m*'), pause('queue/export')], 'queue/m*'],
  [[], null],
])('among %j a job of mail/welcome is held by %j', (pauses, name) => {
  expect(findHold(pauses, job)?.name ?? null).toBe(name);
});

test.each([
  ['queued', true],
  ['retrying', true],
  ['claimed', false],
  ['running', false],
  ['paused', false],
  ['failed', false],
  ['finished', false],
  ['cancelled', false],
] as const)('that %s jobs are held is %j', (state, isHeld) => {
  expect(findHold([pause('queue')], { ...job, state }) !== null).toBe(isHeld);
});
