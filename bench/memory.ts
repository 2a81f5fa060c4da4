import { rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import bytes from 'bytes';
import type { openQueue as OpenQueue } from '../src/index.ts';
import type { Bench, Part } from './bench.ts';
import { peakBytesOf, peakDuring } from './measure.ts';
import { makeRoot, runner } from './root.ts';
import { serve } from './web/server.ts';

export const memoryParts: Readonly<Record<string, Part>> = { payloads };

const JOBS = 500;
const TEXT = 'x'.repeat(1_000_000);
const MOST_BYTES = 150_000_000;

/** A job carries a megabyte, gives back another one, prints a lot, and one of ten throws a long error. */
const handler = `export default async ({ data, id }) => {
  console.log('line of output\\n'.repeat(20_000));
  if (id % 10 === 0) throw new Error('long '.repeat(20_000));
  return data;
};
`;

/** The first one works off the jobs. With 1 they tell of failed jobs. */
const commands: readonly (readonly string[])[] = [
  ['work'],
  ['jobs', '--limit', '500'],
  ['jobs', '--limit', '500', '--json'],
  ['jobs', '--order', 'kick', '--limit', '500', '--json'],
  ['jobs', '--upcoming', '100'],
  ['jobs', '--count'],
  ['job', '1'],
  ['job', '1', '--json'],
  ['activity', '--limit', '500', '--json'],
  ['incidents', '--json'],
  ['report'],
  ['report', '--json'],
  ['report', '--csv'],
  ['report', 'queue/large', '--json'],
  ['report', '--html', 'report.html'],
  ['report', '--html', 'whole.html', '--with-output'],
  ['show', '1', '--json'],
  ['status', '--json'],
  ['metrics', '--json'],
  ['why', 'hourly/a'],
  ['check'],
  ['kick', 'large'],
  ['backup', 'copy.db'],
];

const paths = [
  'jobs?limit=500',
  'jobs?limit=50&state=failed',
  'jobs?limit=500&search=no+such+text',
  'jobs/1',
  'jobs/counts',
  'runs?limit=500',
  'runs/1/output',
  'activity?limit=500',
  'incidents',
  'overview',
  'status',
  'health',
];

/** Peak memory of each list, page, report and command, whatever the jobs carry. */
async function payloads(bench: Bench): Promise<void> {
  const root = makeRoot(bench.disk, { 'queue/large.mjs': handler, 'hourly/a.sh': '' });
  writeFileSync(join(root, 'runner.config.json'), '{"retention":{"maxDatabaseSize":"100gb"}}');
  const count = bench.scaled(JOBS);
  await fill(root, count);
  const peaks: (readonly [what: string, peak: number])[] = [];
  for (const args of commands) {
    const command = [process.execPath, runner, ...args];
    peaks.push([`runner ${args.join(' ')}`, await peakBytesOf({ command, cwd: root }, [0, 1])]);
  }
  const { size } = statSync(join(root, '.runner/activity.db'));
  bench.say(`${count} jobs in a log of ${bytes(size)}`);
  peaks.push(...(await peaksOfAnswers(root)));
  for (const [what, peak] of peaks) bench.atMost(`${what}, MB`, peak / 1_000_000, MOST_BYTES / 1_000_000);
  rmSync(root, { recursive: true });
}

async function fill(root: string, count: number): Promise<void> {
  const built = new URL('../dist/index.mjs', import.meta.url).href;
  const { openQueue } = (await import(built)) as { readonly openQueue: typeof OpenQueue };
  const queue = await openQueue({ root });
  for (let index = 0; index < count; index += 1) await queue.add('large', { index, text: TEXT }, { retries: 0 });
  await queue.close();
}

/** Of the server from one answer to the next. */
async function peaksOfAnswers(root: string): Promise<(readonly [what: string, peak: number])[]> {
  const { pid, url, headers, stop } = await serve(root);
  const peaks: (readonly [string, number])[] = [];
  for (const path of paths) {
    const peak = await peakDuring(pid, async () => {
      const response = await fetch(`${url}api/${path}`, { headers });
      if (!response.ok) throw new Error(`${path}: ${response.status}`);
      await response.arrayBuffer();
    });
    peaks.push([`GET /api/${path}`, peak]);
  }
  await stop();
  return peaks;
}
