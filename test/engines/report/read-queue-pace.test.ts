import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Site } from '../../../src/discovery/site.ts';
import { readStrain } from '../../../src/report/model/pace.ts';
import { describePace } from '../../../src/system/base/format.ts';
import { HOUR, MINUTE, NOW } from '../../support/alerts.ts';
import { callAt, cronEnv } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { openReadApi } from '../../support/web/dashboard.ts';
import { siteOf, type WrittenLog, writeLog } from '../../support/written-log.ts';

const SECOND = 1000;
const script = executable('#!/bin/sh\n');

/** Adds jobs of a name that ended one after the other, each of which had waited for some time. */
async function addEnded(
  log: WrittenLog,
  name: string,
  jobs: readonly Readonly<Record<'at' | 'lasted' | 'waited', number>>[],
) {
  const worker_id = await log.addPass('hourly', NOW - HOUR, { kind: 'script' });
  for (const { at, lasted, waited } of jobs) {
    const ends = at + lasted;
    log.change(
      `insert into jobs (name, state, ready, created_at, run_at, finished_at) values (?, 'finished', null, ?, ?, ?)`,
      ...[name, at - waited, at - waited, ends],
    );
    const { id } = await log.db
      .selectFrom('jobs')
      .select(({ fn }) => fn.max('id').as('id'))
      .executeTakeFirstOrThrow();
    const fields = { job_id: Number(id), scheduled_for: at - waited, finished_at: ends, duration_us: lasted * 1000 };
    await log.addRun(`queue/${name}`, at, { worker_id, ...fields });
  }
}

function addDue(log: WrittenLog, name: string, count: number, at: number): void {
  for (let job = 0; job < count; job += 1)
    log.change('insert into jobs (name, created_at, run_at) values (?, ?, ?)', name, at, at);
}

test('the pace of the queue: who keeps up, how many workers are needed, and what has no handler', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail.sh': script, 'jobs/queue/slow.sh': script });
  const log = await writeLog(root);
  const start = NOW - HOUR + MINUTE;
  const slow = Array.from({ length: 10 }, (_, job) => ({
    at: start + job * 180 * SECOND,
    lasted: 120 * SECOND,
    waited: 0,
  }));
  await addEnded(log, 'slow', slow);
  const mails = Array.from({ length: 41 }, (_, job) => ({
    ...{ at: NOW - 20 * MINUTE + job * 10 * SECOND, lasted: SECOND, waited: job * SECOND },
  }));
  await addEnded(log, 'mail', mails);
  addDue(log, 'slow?id=7', 29, NOW - 30 * MINUTE);
  addDue(log, 'slow', 1, NOW - 40 * MINUTE);
  // A name that nobody processes says nothing of the others.
  addDue(log, 'mial', 2, NOW - 10 * 24 * HOUR);
  const env = { ...cronEnv(root), TZ: 'UTC', COLUMNS: '120' };
  const call = async (...args: string[]) => await callAt(['jobs', '--pace', ...args], { cwd: root, env }, NOW);

  const pace = JSON.parse((await call('--json')).stdout);
  expect(pace).toMatchObject({ since: new Date(NOW - HOUR).toISOString(), until: new Date(NOW).toISOString() });
  const none = { behindPerHour: 0, workers: null, clearMs: null };
  const oldestDue = new Date(NOW - 40 * MINUTE).toISOString();
  const behind = { verdict: 'behind', behindPerHour: 30, workers: 6, clearMs: expect.closeTo(771_429, 0) };
  expect(pace.names).toEqual([
    { name: 'slow', added: 40, ended: 10, waitP50Ms: 0, waitP95Ms: 0, due: 30, oldestDue, ...behind },
    {
      ...{ name: 'mial', added: 0, ended: 0, waitP50Ms: null, waitP95Ms: null, due: 2, ...none },
      ...{ oldestDue: new Date(NOW - 10 * 24 * HOUR).toISOString(), verdict: 'no-handler' },
    },
    {
      ...{ name: 'mail', added: 41, ended: 41, waitP50Ms: 20_000, waitP95Ms: 38_000, due: 0, oldestDue: null, ...none },
      verdict: 'keeps-up',
    },
  ]);
  expect(pace.all).toMatchObject({ added: 81, ended: 51, due: 30, oldestDue, verdict: 'behind', behindPerHour: 30 });

  // A view that says nothing of a queue that is well has the same value and the same sentence.
  const status = async (...args: string[]) => (await callAt(['status', ...args], { cwd: root, env }, NOW)).stdout;
  expect(JSON.parse(await status('--json')).queue.pace).toEqual(pace.all);
  expect(await openReadApi(root, () => NOW).ask('/api/status')).toMatchObject({ queue: { pace: pace.all } });
  expect(await status()).toContain(`\n  ${describePace(pace.all)}\n`);

  const { stdout } = await call();
  expect(stdout).toContain(`all names: ${describePace(pace.all)}`);
  const docs = readFileSync(new URL('../../../docs/queue.md', import.meta.url), 'utf8');
  expect(docs).toContain(`\`\`\`text\n${stdout}\`\`\`\n`);
});

test('due jobs that nobody takes: without a handler, without a worker, or too new to be judged', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail.sh': script });
  const log = await writeLog(root);
  const env = { ...cronEnv(root), TZ: 'UTC' };
  const read = async () => {
    const ask = async (...args: string[]) =>
      JSON.parse((await callAt([...args, '--json'], { cwd: root, env }, NOW)).stdout);
    const [pace, { queue }] = [await ask('jobs', '--pace'), await ask('status')];
    // Names without a handler are listed there anyway.
    const isStrained = ['behind', 'no-worker'].includes(pace.all.verdict);
    expect(queue.pace).toEqual(isStrained ? pace.all : null);
    return pace;
  };
  addDue(log, 'mial', 2, NOW - HOUR);
  expect(await read()).toMatchObject({ all: { due: 0, oldestDue: null, verdict: 'no-handler' } });
  addDue(log, 'mail', 1, NOW - 30 * SECOND);
  expect(await read()).toMatchObject({ all: { due: 1, verdict: 'keeps-up' } });
  addDue(log, 'mail', 1, NOW - 2 * MINUTE);
  expect(await read()).toMatchObject({ all: { due: 2, verdict: 'no-worker' }, names: [{ verdict: 'no-worker' }, {}] });
  await log.addPass('hourly', NOW - MINUTE);
  expect(await read()).toMatchObject({ all: { due: 2, verdict: 'behind' } });
});

test('the status of a root without due jobs asks nothing about their pace', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail.sh': script });
  const log = await writeLog(root);
  const site = { ...siteOf(log), jobs: () => Promise.reject(new Error('asked')) } as unknown as Site;
  expect(await readStrain(site, 0)).toBeNull();
  await expect(readStrain(site, 1)).rejects.toThrow('asked');
});

test('a queue in which nothing happens has no pace', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail.sh': script });
  const env = { ...cronEnv(root), TZ: 'UTC' };
  const call = async (...args: string[]) => await callAt(['jobs', '--pace', ...args], { cwd: root, env }, NOW);
  expect((await call()).stdout).toBe('No job was due, added or processed within the last hour.\n');
  await writeLog(root);
  expect(JSON.parse((await call('--json')).stdout)).toMatchObject({ names: [], all: { due: 0, verdict: 'keeps-up' } });
});
