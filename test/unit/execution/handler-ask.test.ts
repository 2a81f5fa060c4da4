import { expect, test } from 'vitest';
import type { SpokenAsk } from '../../../src/child/contract.ts';
import { readAsk } from '../../../src/execution/result/handler-reply.ts';

type SpokenRetry = Extract<SpokenAsk, { readonly kind: 'retry' }>;

const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
const textOf = (bytes: number) => `"${'x'.repeat(bytes - 2)}"`;
const MiB = 1024 * 1024;
const path = "a handler's path such as mail/welcome, 1 to 255 characters as name";

test.each([
  ['0s', 0],
  ['0', 0],
  ['0 minutes', 0],
  [' 10m ', 600_000],
])('a delay of %j is taken as the verb takes it', (delay, delayMs) => {
  expect(readAsk({ kind: 'retry', delay }).ask).toEqual({ kind: 'retry', delayMs });
});

test.each<[Omit<SpokenRetry, 'kind'>, string]>([
  [{ name: '' }, `retry() needs ${path}, found ""`],
  [{ name: '../x' }, `retry() needs ${path}, found "../x"`],
  [{ name: 'mail//a' }, `retry() needs ${path}, found "mail//a"`],
  [{ name: 'n'.repeat(256) }, `retry() needs ${path}, found "${'n'.repeat(79)}…`],
  [{ data: nested(1001) }, 'the data of retry() must be JSON nested at most 1000 deep'],
  [
    { data: textOf(MiB + 1) },
    `the data of retry() must be JSON of at most 1 MiB, found ${MiB + 1} bytes; put large data into a file and pass its name`,
  ],
])('a retry that the log would refuse is none: %#', (asked, sentence) => {
  expect(readAsk({ kind: 'retry', ...asked })).toEqual({ ask: null, sentence });
});

test.each([{ name: 'n'.repeat(255) }, { data: nested(1000) }, { data: textOf(MiB) }])(
  'what a job may just hold is taken: %#',
  (asked) => {
    expect(readAsk({ kind: 'retry', ...asked }).ask).toEqual({ kind: 'retry', ...asked });
  },
);
