import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseExactly } from '../../src/system/base/values.ts';

test.each([
  '9007199254740993',
  '-9223372036854775808',
  '0.12345678901234567890',
  '1e400',
  '-0',
  '[1.50,{"a":[20e3]}]',
  '{"__proto__":{"id":9007199254740993},"constructor":1.0}',
])('%s is written again letter by letter', (text) => {
  expect(JSON.stringify(parseExactly(text))).toBe(text);
});

test('all else is read as it always is', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value);
      expect(JSON.stringify(parseExactly(text))).toBe(text);
      expect(JSON.parse(JSON.stringify(parseExactly(text)))).toEqual(JSON.parse(text));
    }),
  );
  expect(parseExactly('{"a":[1,"9007199254740993",null,true]}')).toEqual({
    a: [1, '9007199254740993', null, true],
  });
});

test('what is no JSON is refused', () => {
  expect(() => parseExactly('{a:1}')).toThrow(SyntaxError);
});
