import { expect, test } from 'vitest';
import type { Script } from '../../../src/discovery/script.ts';
import { renderList } from '../../../src/report/terminal/overview.ts';
import { createScreen } from '../../../src/report/terminal/screen.ts';
import { machineName } from '../../../src/system/process/identity.ts';

const script: Script = {
  name: 'hourly/clean-tmp',
  tier: 'hourly',
  path: '/root/jobs/hourly/clean-tmp.ts',
  launch: { kind: 'node' },
  options: {},
  contentHash: '',
  refusals: [],
  warnings: [],
};
const screen = createScreen({ stdout: { columns: 80 }, stderr: {}, env: {}, now: () => 0 });

test('the list has each tier with its scripts, the handlers, and each other file with the reason', () => {
  const options = {
    description: 'Removes old files',
    timeoutMs: 600_000,
    retries: 1,
    retryDelay: { firstMs: 5000, factor: 1, longestMs: 5000 },
    memoryBytes: 256 * 1024 ** 2,
    nice: 5,
    env: ['API_KEY'],
    tags: ['disk'],
  };
  const tiers = [
    {
      name: 'hourly',
      periodMs: 3_600_000,
      scripts: [
        { ...script, options },
        { ...script, name: 'hourly/b', path: '/root/jobs/hourly/b.sh', refusals: ['no php'] },
        { ...script, name: 'hourly/c', path: '/root/jobs/hourly/c.js', warnings: ['@timout?'] },
      ],
    },
    { name: 'by-hand', periodMs: null, scripts: [] },
  ];
  const handler = { ...script, name: 'queue/mail/welcome', path: '/root/jobs/queue/mail/welcome.ts' };
  const handlers = [{ ...handler, tier: 'queue', options: { retries: 3 } }];
  const ignored = [{ path: '/root/jobs/hourly/notes.txt', reason: 'text' }];
  const elsewhere = [{ ...script, name: 'hourly/d', options: { host: ['db-1', 'db-2'] } }];
  const unread = [{ tier: 'daily', reason: 'jobs/daily: it cannot be read' }];
  expect(
    renderList({ tiers, unread, handlers, ignored, elsewhere, warnings: ['tiers?'] }, '/root', screen),
  ).toBe(`hourly · every hour
  hourly/clean-tmp · jobs/hourly/clean-tmp.ts
    Removes old files · timeout 10m · 1 retry · retry after 5s · heap 256MB
    nice 5 · env API_KEY · tags disk
  hourly/b · jobs/hourly/b.sh
    refused: no php
  hourly/c · jobs/hourly/c.js
    @timout?

by-hand · runs by hand
  no scripts

jobs/daily: it cannot be read

queue · handlers of queued jobs
  queue/mail/welcome · jobs/queue/mail/welcome.ts
    3 retries

on other machines · 1 script
  hourly/d · runs on db-1, db-2; this is ${machineName()}

not scripts · 1 file
  jobs/hourly/notes.txt · text

tiers?
`);
});

test('hostile names and tags are made visible', () => {
  const hostile = {
    ...script,
    name: 'hourly/a\nb\x1b[2J',
    path: '/root/jobs/hourly/a\nb\x9b',
    options: { description: 'x\x07' },
  };
  const tiers = [{ name: 'hour\rly', periodMs: null, scripts: [hostile] }];
  const text = renderList(
    {
      tiers,
      unread: [{ tier: '\x07', reason: '\x1bc' }],
      handlers: [],
      ignored: [{ path: '/root/\x07', reason: '\x1bc' }],
      elsewhere: [{ ...hostile, options: { host: ['\x1bc'] } }],
      warnings: ['\x07'],
    },
    '/root',
    screen,
  );
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  expect(text).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f]/);
  expect(text).toContain('hourly/a␊b');
});

test('a root without tiers says how to make some', () => {
  const empty = { tiers: [], unread: [], handlers: [], ignored: [], elsewhere: [], warnings: [] };
  expect(renderList(empty, '/root', { ...screen, columns: 60 })).toBe(
    'There is no tier in jobs/ yet: `npx folder-runner init`\ncreates some, `npx folder-runner new` one with a script.\n',
  );
});
