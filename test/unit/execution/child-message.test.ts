import { expect, test } from 'vitest';
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
