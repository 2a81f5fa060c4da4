import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findDefault, toJsonText } from '../../../src/child/call-handler.ts';
import { MAX_JSON_BYTES, runVariableNames, runVariables, splitLines } from '../../../src/child/contract.ts';

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
