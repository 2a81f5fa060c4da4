import { describe, expect, test } from 'vitest';
import { nameLine, numberIn, parseJson, readJobLines, readQueueOptions } from '../../../src/commands/shared/options.ts';
import { jobOptions } from '../../../src/queue/add/options.ts';
import { QueueError } from '../../../src/queue/errors.ts';
import { ExactJson } from '../../../src/system/base/exact-json.ts';

test('what was not said is left out', async () => {
  expect(await readQueueOptions(jobOptions, {})).toEqual({});
  expect(Object.keys(await readQueueOptions(jobOptions, { at: '+1h' }))).toEqual(['runAt']);
});

test('each option has its name in the queue', async () => {
  const words = {
    at: '+10 minutes',
    priority: '-5',
    retries: '3',
    retryDelay: 'exponential',
    unique: 'k',
    onDuplicate: 'merge',
    repeat: 'HOURLY',
    missed: 'skip',
    parent: '7',
    onChildFailure: 'fail',
    group: 'g',
    lease: '5m',
  };
  expect(await readQueueOptions(jobOptions, { ...words, json: true })).toEqual({
    runAt: '+10 minutes',
    priority: -5,
    retries: 3,
    retryDelay: 'exponential',
    uniqueKey: 'k',
    onDuplicate: 'merge',
    repeat: 'HOURLY',
    missed: 'skip',
    parent: 7,
    onChildFailure: 'fail',
    group: 'g',
    lease: '5m',
  });
});

test.each([
  ['12', 12],
  ['-1', -1],
  ['1.5', '1.5'],
  ['0x10', '0x10'],
  ['', ''],
  ['many', 'many'],
])('%j is %j', (word, value) => {
  expect(numberIn(word)).toBe(value);
});

test.each([
  ['', '(it is empty)'],
  ['  \n', '(it is empty)'],
  ['{secret:1}', '(error at character 2)'],
  ['{"secret":', '(it ends too early)'],
  ['secret', '(not a JSON value)'],
])('%j is none, and is not shown: it may be secret', (text, found) => {
  let message = '';
  try {
    parseJson(text, 'The data');
  } catch (error) {
    message = (error as Error).message;
  }
  expect(message).toMatch(/^The data is not valid JSON \(.*\); expected JSON such as '.*' in single quotes\.$/);
  expect(message).toContain(found);
  expect(message).not.toContain('secret');
});

test('each line that is not empty is a job, and keeps its number', () => {
  expect(readJobLines('{"name":"a"}\r\n\n  {"name":"b","data":[1],"priority":7}\n')).toEqual([
    { line: 1, job: { name: 'a' } },
    { line: 3, job: { name: 'b', data: new ExactJson('[1]'), priority: 7 } },
  ]);
  expect(readJobLines('')).toEqual([]);
});

test('data stays text, letter by letter; options are read', () => {
  const data = '{"b":[1.0,9007199254740993],"10":{"data":"\\"}"},"2":{},"b":null}';
  const [line] = readJobLines(`{"data":1,"name":"a","data": ${data} ,"priority":5e2}`);
  expect(line?.job.data).toEqual(new ExactJson(data));
  expect(line?.job.priority).toBe(500);
});

describe('a wrong line is named:', () => {
  test.each([
    ['{"name":"a"}\n{"name":', 'Line 2 is not valid JSON'],
    ['\n[]', 'Line 2 must be an object such as {"name":"mail/welcome","data":{}}.'],
    ['null', 'Line 1 must be an object'],
    ['{"name":"a","prioriti":1}', 'Line 1: "prioriti" is not a key of a job; did you mean priority?'],
    ['{"name":"a","zzzzzzz":1}', 'Line 1: "zzzzzzz" is not a key of a job; a job has name, data'],
  ])('%j', (text, message) => {
    expect(() => readJobLines(text)).toThrow(message);
  });

  test('what the queue says of a job is told of its line', () => {
    const lines = readJobLines('{"name":"a"}\n\n{"name":"b"}');
    const cause = new QueueError('invalid', 'A priority must be a whole number.');
    const error = new QueueError('invalid', `Job 2 of 2 ("b"): ${cause.message}`, { index: 1, cause });
    expect(nameLine(error, lines)).toMatchObject({
      code: 'invalid',
      message: 'Line 3 ("b"): A priority must be a whole number.',
    });
  });

  test('what is said of the only job, and what is no matter of a line', () => {
    const [only] = readJobLines('\n{"name":"a"}');
    if (only === undefined) throw new Error('there is a job');
    const error = new QueueError('wrong-state', 'Job 7 cannot have children.');
    expect(nameLine(error, [only])).toMatchObject({ message: 'Line 2: Job 7 cannot have children.' });
    const other = new Error('disk full');
    expect(nameLine(other, [only])).toBe(other);
  });
});
