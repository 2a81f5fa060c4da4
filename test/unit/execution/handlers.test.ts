import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findDefault, toJsonText } from '../../../src/child/call-handler.ts';
import {
  MAX_JSON_BYTES,
  runVariableNames,
  runVariables,
  type SpokenAsk,
  splitLines,
} from '../../../src/child/contract.ts';
import { readAsk } from '../../../src/execution/result/handler-reply.ts';
import { readChildMessage } from '../../../src/execution/result/report.ts';

const result = { exitCode: 0, error: null, userCpuMs: 0.5, systemCpuMs: 0, maxRssBytes: 4096 };
const end = {
  end: { ...result, result: '{"sent":true}', rssDeltaBytes: -4096 },
  ...{ durationMs: 0.1, rssBytes: 4096 },
};
const file = { path: '/a.mjs', mtimeMs: 1.5, size: 1, ino: 1 };
const stray = { jobId: 1, lastKey: null, sentence: 'Error: boom' };

test.each<object>([
  { ready: true },
  { update: 1, data: '{}' },
  { unbegun: 3 },
  end,
  { ...end, loaded: [file], isSpoilt: true, stray },
  { ...end, trace: { kind: 'changed', what: 'JSON.parse' } },
  { ...end, end: { ...result, ask: { kind: 'retry', delay: '1m' } } },
  { ...end, end: { ...result, ask: { kind: 'fail', reason: 'no' }, refusal: 'no' } },
])('a message of ours is taken: %j', (message) => {
  expect(readChildMessage(JSON.stringify(message))).toEqual(message);
});

test.each<unknown>([
  ...[null, 5, 'ready', [], {}, { start: 1 }, { ready: 1 }],
  ...[{ update: '1', data: '{}' }, { update: 1 }, { update: 1, data: {} }],
  ...[{ end: null }, { end: 5 }, { start: 1, end: 5 }, { end: {} }, { end: [] }],
  { end: result },
  { ...end, rssBytes: '4096' },
  { ...end, durationMs: null },
  { unbegun: 'all' },
  { ...end, loaded: 5 },
  { ...end, loaded: [null] },
  { ...end, loaded: [{ ...file, path: 1 }] },
  { ...end, stray: 'boom' },
  { ...end, trace: { kind: 'other', what: 'JSON.parse' } },
  { ...end, trace: { kind: 'changed', what: 5 } },
  { ...end, stray: { ...stray, sentence: null } },
  { ...end, stray: { ...stray, jobId: {} } },
  ...[
    { exitCode: '0' },
    { userCpuMs: {} },
    { error: 5 },
    { error: undefined },
    { result: {} },
    { result: '{' },
    { refusal: {} },
    { rssDeltaBytes: 'much' },
    { ask: 'retry' },
    { ask: { kind: 'nope' } },
    { ask: { kind: 'fail', reason: {} } },
    { ask: { kind: 'retry', data: {} } },
  ].map((wrong) => ({ ...end, end: { ...result, ...wrong } })),
])('what is none of ours is not: %j', (message) => {
  expect(readChildMessage(JSON.stringify(message))).toBeNull();
});

test.each(['', 'junk', '{"end":', '{"ready":true}{"ready":true}'])('nor is a value that is not JSON: %j', (line) => {
  expect(readChildMessage(line)).toBeNull();
});

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

test('lines arrive whole and in order, however they were cut', () => {
  const line = fc.string({ unit: 'binary' }).filter((text) => !text.includes('\n'));
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat(20)), (lines, cuts) => {
      const found: string[] = [];
      const take = splitLines((each) => found.push(each));
      let rest = lines.map((each) => `${each}\n`).join('');
      for (const cut of cuts) {
        take(rest.slice(0, cut));
        rest = rest.slice(cut);
      }
      take(rest);
      expect(found).toEqual(lines);
    }),
  );
});

test('what is no whole line yet is kept back', () => {
  const found: string[] = [];
  const take = splitLines((line) => found.push(line));
  take('one\ntw');
  expect(found).toEqual(['one']);
  take('o\n');
  expect(found).toEqual(['one', 'two']);
});

test('a line that is too long is handed on in parts', () => {
  const found: string[] = [];
  const take = splitLines((line) => found.push(line), 4);
  for (const piece of ['one\n', 'tw', 'o,', 'three', 'f\n', 'four\n']) take(piece);
  expect(found).toEqual(['one', 'two,three', 'f', 'four']);
});

describe('what is kept as JSON', () => {
  test('is any value that JSON has a word for', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(toJsonText(value)).toEqual({ text: JSON.stringify(value) });
      }),
    );
  });

  test.each([
    ['x'.repeat(MAX_JSON_BYTES - 2), true],
    ['x'.repeat(MAX_JSON_BYTES - 1), false],
    ['é'.repeat(MAX_JSON_BYTES / 2 - 1), true],
    ['é'.repeat(MAX_JSON_BYTES / 2), false],
  ])('has at most 1 MiB, counted in bytes', (value, isKept) => {
    expect('text' in toJsonText(value)).toBe(isKept);
  });

  test.each([
    [1000, true],
    [1001, false],
  ])('is nested %i deep: %j', (depth, isKept) => {
    const value: unknown = JSON.parse('['.repeat(depth) + ']'.repeat(depth));
    expect('text' in toJsonText(value)).toBe(isKept);
  });

  test.each([
    [Symbol('a'), 'a symbol'],
    [undefined, 'undefined'],
    [() => {}, 'a function'],
  ])('is not %s', (value, what) => {
    expect(toJsonText(value)).toEqual({ problem: `cannot be written as JSON: it is ${what}` });
  });

  test('is not what refuses to be written', () => {
    const toJSON = () => {
      throw new Error('not me');
    };
    expect(toJsonText({ toJSON })).toEqual({ problem: 'cannot be written as JSON: not me' });
  });
});

test('a function is found in whichever way it is exported, a class never', () => {
  const run = () => {};
  for (const exported of [run, { default: run }, { default: { default: run } }]) {
    expect(findDefault(exported)).toBe(run);
  }
  const itself: { default?: unknown } = {};
  itself.default = itself;
  for (const exported of [class A {}, { default: class A {} }, {}, null, 1, itself]) {
    expect(findDefault(exported)).toBeNull();
  }
});

test('each variable of a run is one of those that are set anew for each job', () => {
  const facts = { key: '1.1', script: 'a', scheduledFor: 0, latenessMs: 0, attempt: 1 };
  const job = { id: 1, name: 'a' };
  const variables = runVariables({ ...facts, lastSuccess: null, previouslyCrashed: false, job });
  expect(Object.keys(variables).toSorted()).toEqual(runVariableNames.toSorted());
});
