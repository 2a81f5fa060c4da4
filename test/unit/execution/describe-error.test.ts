import { expect, test } from 'vitest';
import { describeError } from '../../../src/child/record-end.ts';

test('an error is described by its name, its message and its stack with its causes', () => {
  const error = new TypeError('outer', { cause: new RangeError('inner') });
  const { name, message, stack } = describeError(error);
  expect({ name, message }).toEqual({ name: 'TypeError', message: 'outer' });
  expect(stack).toMatch(/^TypeError: outer\n +at [\s\S]*\[cause\]: RangeError: inner/);
});

test('what is no error has no stack', () => {
  expect(describeError('a text')).toEqual({ name: 'thrown string', message: 'a text', stack: null });
  expect(describeError(undefined)).toMatchObject({ name: 'thrown undefined', message: 'undefined' });
  expect(describeError(Object.create(null))).toMatchObject({ name: 'thrown object' });
});

test('what cannot be looked at is described all the same', () => {
  const hostile = new Proxy(new Error('x'), {
    get() {
      throw new Error('of a getter');
    },
  });
  expect(() => describeError(hostile)).not.toThrow();
  const nameless = Object.assign(new Error('x'), { name: Symbol('sign') });
  expect(describeError(nameless)).toMatchObject({ message: expect.any(String) });
});

test('a description stays short, whatever is thrown', () => {
  const { message, stack } = describeError(new Error('long '.repeat(1_000_000)));
  expect(message.length).toBe(8 * 1024);
  expect(stack?.length).toBe(32 * 1024);
});
