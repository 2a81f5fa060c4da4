// On a fleet a script runs once in a slot, however often its tier is called: this is about SQLite.
import { describe, expect, test } from 'vitest';
import { inRoot } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

interface Died {
  /** How many passes of this period. */
  readonly passes?: number;
  readonly trigger?: 'due' | 'cron';
}

/** A tier of which a script had succeeded when its pass of this year died; another one died with it. */
async function makeRootOfDeadPass({ passes = 1, trigger = 'due' }: Died = {}): Promise<string> {
  const sh = executable('#!/bin/sh\n');
  const root = makeTemporaryRoot({ 'jobs/yearly/done.sh': sh, 'jobs/yearly/left.sh': sh });
  const { addPass, addRun } = await writeLog(root);
  const at = Date.now();
  const start = Date.UTC(new Date(at).getUTCFullYear(), 0, 1);
  for (let count = 0; count < passes; count += 1) {
    await addPass('yearly', at, { state: 'crashed' });
  }
  await addRun('yearly/done', at, { worker_id: 1, scheduled_for: start });
  await addRun('yearly/left', at, { worker_id: 1, scheduled_for: start, outcome: 'crashed' });
  changeLog(root, 'update workers set triggered_by = ?, scheduled_for = ?', trigger, start);
  changeLog(root, 'update jobs set scheduled_for = ?, started_at = ?', start, at);
  return root;
}

const statusOf = async (root: string): Promise<string> => (await inRoot(root, 'status')).stdout;
const isDueAgain = async (root: string): Promise<unknown> =>
  JSON.parse((await inRoot(root, 'status', '--json')).stdout).tiers[0].isDueAgain;

describe('what was left of a pass of `npx folder-runner due` that died', () => {
  test('is run by the next call of that, say status and why', async () => {
    const root = await makeRootOfDeadPass();
    expect(await statusOf(root)).toMatch(/\nyearly .*, crashed +with the next call of `npx folder-runner due`\n/);
    expect(await isDueAgain(root)).toBe(true);
    const { stdout } = await inRoot(root, 'why', 'left');
    expect(stdout).toMatch(/✔ called +cron called it .*, and due again, because its pass died\n/);
    expect(stdout).toMatch(/→ The next call of `npx folder-runner due` does the rest\.\n/);
    expect(stdout).toMatch(
      /\n\nIt will run with the next call of `npx folder-runner due`, because the last pass of yearly died\.\n/,
    );
  });

  test('is what that call does', async () => {
    const root = await makeRootOfDeadPass();
    expect(await inRoot(root, 'due')).toMatchObject({ status: 0, stderr: '' });
    const { scripts } = JSON.parse((await inRoot(root, 'report', '--json')).stdout);
    expect(scripts.map((each: { script: string; runs: number }) => [each.script, each.runs])).toEqual([
      ['yearly/done', 1],
      ['yearly/left', 2],
    ]);
    expect(await isDueAgain(root)).toBe(false);
  });

  test('is not what had ended: that is run in the next period', async () => {
    const root = await makeRootOfDeadPass();
    expect((await inRoot(root, 'why', 'done')).stdout).toMatch(/\n\nIt will run with the next pass of yearly, about /);
  });

  test.each<[string, Died]>([
    ['two passes of the period have died', { passes: 2 }],
    ['cron calls the tier by its name', { trigger: 'cron' }],
  ])('waits for the next period where %s', async (_, died) => {
    const root = await makeRootOfDeadPass(died);
    expect(await statusOf(root)).not.toContain('runner due');
    expect(await isDueAgain(root)).toBe(false);
    expect((await inRoot(root, 'why', 'left')).stdout).toMatch(/\n\nIt will run with the next pass of yearly, about /);
  });
});
