import { expect, test } from 'vitest';
import { readJobStates } from '../../src/report/text/filters.ts';

test.each([
  ['failed', { state: ['failed'] }],
  ['queued, retrying', { state: ['queued', 'retrying'] }],
  ['ready', { due: 'ready' }],
  ['delayed', { due: 'delayed' }],
])('%j asks for %j', (text, asked) => {
  expect(readJobStates(text)).toEqual(asked);
});

test.each([
  ['faild', 'found "faild"; did you mean failed?'],
  ['failed,ready', 'ready or delayed alone, found "ready"'],
  ['', 'found ""'],
])('%j is wrong use', (text, message) => {
  expect(() => readJobStates(text)).toThrow(message);
});
