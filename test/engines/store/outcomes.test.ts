import { expect, test } from 'vitest';
import { isFailure, outcomes } from '../../../src/store/words.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openSqliteOf } from '../../support/store.ts';

test('a run that was given back or stopped is neither a success nor a failure', () => {
  const others = outcomes.filter((outcome) => !isFailure(outcome));
  expect(others).toEqual(['succeeded', 'released', 'stopped', 'running']);
});

test('the log takes each of them, and no other', async () => {
  const { connection } = await openSqliteOf(makeTemporaryRoot());
  connection.exec(`insert into jobs (name) values ('a')`);
  const text = `insert into runs (job_id, script_id, attempt, started_at, outcome) values (1, 1, 1, 0, ?)`;
  const add = (outcome: string) => connection.prepare(text).run([outcome]);
  for (const outcome of outcomes) add(outcome);
  expect(() => add('given-back')).toThrow('CHECK constraint failed');
});
