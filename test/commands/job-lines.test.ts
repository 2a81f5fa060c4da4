import { describe, expect, test } from 'vitest';
import { nameLine, readJobLines } from '../../src/commands/shared/options.ts';
import { QueueError } from '../../src/queue/errors.ts';

test('each line that is not empty is a job, and keeps its number', () => {
  expect(readJobLines('{"name":"a"}\r\n\n  {"name":"b","data":[1],"priority":7}\n')).toEqual([
    { line: 1, job: { name: 'a' } },
    { line: 3, job: { name: 'b', data: [1], priority: 7 } },
  ]);
  expect(readJobLines('')).toEqual([]);
});

test('numbers of the data stay as they are written, those of options are numbers', () => {
  const [line] = readJobLines('{"name":"a","data":[1.0,9007199254740993],"priority":5e2}');
  expect(JSON.stringify(line?.job.data)).toBe('[1.0,9007199254740993]');
  expect(line?.job.priority).toBe(500);
});

describe('a wrong line is named:', () => {
  test.each([
    ['{"name":"a"}\n{"name":', 'Line 2 is not valid JSON'],
    ['\n[]', 'Line 2 expects an object such as {"name":"mail/welcome","data":{}}.'],
    ['null', 'Line 1 expects an object'],
    [
      '{"name":"a","prioriti":1}',
      'Line 1: "prioriti" is not a key of a job; did you mean priority?',
    ],
    ['{"name":"a","zzzzzzz":1}', 'Line 1: "zzzzzzz" is not a key of a job; a job has name, data'],
  ])('%j', (text, message) => {
    expect(() => readJobLines(text)).toThrow(message);
  });

  test('what the queue says of a job is told of its line', () => {
    const lines = readJobLines('{"name":"a"}\n\n{"name":"b"}');
    const error = new QueueError('invalid', 'Job 2 of 2 (b): A priority expects a whole number.');
    expect(nameLine(error, lines)).toMatchObject({
      code: 'invalid',
      message: 'Line 3 (b): A priority expects a whole number.',
    });
  });

  test('what is said of the only job, and what is no matter of a line', () => {
    const [only] = readJobLines('\n{"name":"a"}');
    if (only === undefined) throw new Error('there is a job');
    const error = new QueueError('wrong-state', 'Job 7 cannot have children.');
    expect(nameLine(error, [only])).toMatchObject({
      message: 'Line 2: Job 7 cannot have children.',
    });
    const other = new Error('disk full');
    expect(nameLine(other, [only])).toBe(other);
  });
});
