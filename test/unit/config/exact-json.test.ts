import fc from 'fast-check';
import { expect, test } from 'vitest';
import { memberOf, parseExactly, writeExactly } from '../../../src/system/base/exact-json.ts';

test.each([
  '9007199254740993',
  '-9223372036854775808',
  '0.12345678901234567890',
  '1e400',
  '-0',
  'true',
  '"\\u0030 \\" {\\\\"',
  '[1.50,{"a":[20e3]}]',
  '{"b":1,"10":2,"9":3,"b":4}',
  '{"__proto__":{"id":9007199254740993},"constructor":1.0}',
])('%s is passed on letter by letter', (text) => {
  const loose = text.replaceAll(/([,:[{}\]])(?=[^\\]*$)/g, '$1 \n\t');
  expect(parseExactly(text)?.text).toBe(text);
  expect(parseExactly(` ${loose}\n`)?.text).toBe(text);
  const written = writeExactly({ data: [parseExactly(text)], more: '"\\u00300"' });
  expect(written.replaceAll(/\n *|(?<=":) /g, '')).toBe(`{"data":[${text}],"more":"\\"\\\\u00300\\""}`);
});

test('it is written as deep as JSON.stringify writes it, whatever it holds', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const exact = Object.entries(value).map(([key, each]) => [key, parseExactly(JSON.stringify(each, null, 1))]);
      expect(writeExactly(Object.fromEntries(exact))).toBe(JSON.stringify(value, null, 2));
    }),
  );
});

test("a key's text is found, at the top only, the last one of two", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom('a', 'b', '"', '1'), fc.jsonValue())), (members) => {
      const text = members.map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`).join(' , ');
      const object = parseExactly(`{${text}}`);
      const last = members.findLast(([key]) => key === 'a');
      expect(object && memberOf(object, 'a')?.text).toBe(last && JSON.stringify(last[1]));
    }),
  );
});

test('a mebibyte of escapes, of signs or of one text is as good', () => {
  for (const text of [`"${'\\n'.repeat(500_000)}"`, `[${'[],'.repeat(300_000)}0]`, `"${'x'.repeat(1_000_000)}"`]) {
    expect(parseExactly(text)?.text).toBe(text);
  }
});

test('null is null; a value that is not JSON is refused', () => {
  expect(parseExactly(' null ')).toBeNull();
  expect(() => parseExactly('{a:1}')).toThrow(SyntaxError);
});
