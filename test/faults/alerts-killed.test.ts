import { expect, test } from 'vitest';
import type { AlertMessage } from '../../src/monitor/alert/message.ts';
import { inRoot } from '../support/command.ts';
import { kindOf, listFaultPoints, runWithFault } from '../support/faults/faults.ts';
import { sampleCases } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';

/** A root whose script fails, and whose messages all stay on their way. */
function makeFailing(): string {
  return makeTemporaryRoot({
    'runner.config.json': JSON.stringify({ alerts: { channels: [{ kind: 'command', run: 'exit 1' }] } }),
    'jobs/hourly/a.sh': 'exit 3\n',
  });
}

/** The transactions from the end of the run to the last message. */
function listCommits(points: readonly string[]): string[] {
  const commits = points.slice(points.indexOf('spawn#1')).filter((point) => kindOf(point) === 'sql commit');
  return commits.slice(0, commits.findIndex((point) => points.indexOf(point) > points.indexOf('spawn#2')) || undefined);
}

test('a runner killed before any commit after a run loses no alert, and none is told twice', async () => {
  const commits = listCommits(await listFaultPoints(makeFailing(), ['hourly']));
  expect(commits.length).toBeGreaterThanOrEqual(4);
  await Promise.all(
    sampleCases(commits).map(async (point) => {
      const root = makeFailing();
      expect((await runWithFault(root, ['hourly'], { at: `before ${point}` })).status).toBe(null);
      await inRoot(root, 'hourly');
      const incidents = queryLog<{ id: number; occurrences: number }>(root, 'select * from incidents');
      const messages = queryLog<{ body: string }>(root, `select body from deliveries where kind = 'alert'`);
      const told = messages.flatMap(({ body }) => (JSON.parse(body) as AlertMessage).incidents.map(({ id }) => id));
      expect(told.toSorted()).toEqual(incidents.map(({ id }) => id));
      expect(incidents.reduce((sum, { occurrences }) => sum + occurrences, 0)).toBe(2);
    }),
  );
}, 120_000);
