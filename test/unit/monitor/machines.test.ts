import { expect, test } from 'vitest';
import { compareCopies } from '../../../src/monitor/machines.ts';
import type { HostCopy } from '../../../src/store/statements/registers.ts';

const on = (hosts: string, name: string, contentHash: string | null = 'a', hostPattern: string | null = null) =>
  hosts
    .split(' ')
    .map((host): HostCopy => ({ ...{ host, name, tier: name.split('/')[0] as string }, contentHash, hostPattern }));

const compare = (...copies: readonly HostCopy[][]) => compareCopies(copies.flat());

test('machines that have the same are not worth a word', () => {
  expect(compare(on('web-1 web-2', 'hourly/a'), on('web-1 web-2', 'hourly/b', 'b'))).toEqual([]);
});

test('a script that some do not have is missing there', () => {
  expect(compare(on('web-1 web-2 web-3', 'hourly/a'), on('web-2', 'hourly/b'))).toEqual([
    'hourly/b is missing on web-1, web-3',
  ]);
});

test('what few have differs from what most have', () => {
  const copies = [on('web-1 web-3', 'hourly/a', 'new'), on('web-2', 'hourly/a', 'old')];
  expect(compare(...copies)).toEqual(['hourly/a on web-2 is not the same as on web-1, web-3']);
});

test('of a refused script nothing is compared but that it is there', () => {
  expect(compare(on('web-1', 'hourly/a', null), on('web-2', 'hourly/a', 'a'))).toEqual([]);
});

test('a script is missing only where it is to run', () => {
  const everywhere = on('web-1 web-2 db-1', 'hourly/a');
  expect(compare(everywhere, on('web-1', 'hourly/b', 'b', 'web-*'))).toEqual(['hourly/b is missing on web-2']);
  expect(compare(everywhere, on('db-1', 'hourly/b', 'b', 'db-1 db-2'))).toEqual([]);
});

test('a machine that does not run a tier misses nothing of it', () => {
  expect(compare(on('web-1 web-2', 'hourly/a'), on('db-1', 'daily/a'))).toEqual([]);
});
