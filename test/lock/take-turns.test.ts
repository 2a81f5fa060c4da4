import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { identifyDeadProcess } from '../support/dead-process.ts';
import { queryLog } from '../support/open-log.ts';
import { type Started, startNode } from '../support/start-command.ts';
import { makeStateOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

const ROUNDS = 30;
const TURNS = 15;

function pathOf(name: string): string {
  return new URL(name, import.meta.url).pathname;
}

async function readAnswers<T>(children: readonly Started[]): Promise<T[]> {
  const ended = await Promise.all(children.map((child) => child.ended));
  return ended.map(({ status, stdout, stderr }) => {
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.parse(stdout) as T;
  });
}

test('of four processes that race for a dead one’s lock exactly one wins, round after round', async () => {
  const root = makeTemporaryRoot();
  const { addPass, state } = await writeLog(root);
  const dead = identifyDeadProcess();
  for (let round = 0; round < ROUNDS; round += 1) {
    const tier = `round-${round}`;
    await addPass(tier, 0, { state: 'running', pid: dead.pid });
    const lock = join(state.locks, `${tier}.lock`);
    mkdirSync(lock);
    // Half of them old enough for the library's own taking over, which two can do at once.
    const time = new Date(round % 2 === 0 ? Date.now() - 600_000 : Date.now());
    utimesSync(lock, time, time);
    writeFileSync(join(state.locks, `${tier}.json`), JSON.stringify({ ...dead, since: 0 }));
  }
  const args = [pathOf('race.child.ts'), root, String(ROUNDS), '4'];
  const won = await readAnswers<number[]>([1, 2, 3, 4].map(() => startNode(args)));
  const rounds = Array.from({ length: ROUNDS }, (_, round) => round);
  expect(won.flat().toSorted((one, other) => one - other)).toEqual(rounds);
  const states = 'select state, count(*) as workers from workers group by state order by state';
  expect(queryLog(root, states)).toEqual([
    { state: 'crashed', workers: ROUNDS },
    { state: 'running', workers: ROUNDS },
    { state: 'skipped', workers: 3 * ROUNDS },
  ]);
  expect(readdirSync(state.locks)).toEqual([]);
});

test('processes that take turns never take the lock from under each other', async () => {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  const args = [pathOf('take-turns.child.ts'), root, String(TURNS)];
  const answers = await readAnswers<{ wrong: string[] }>([1, 2, 3].map(() => startNode(args)));
  expect(answers.flatMap(({ wrong }) => wrong)).toEqual([]);
  const finished = `select count(*) as passes from workers where state = 'finished'`;
  expect(queryLog(root, finished)).toEqual([{ passes: 3 * TURNS }]);
  expect(queryLog(root, `select id from workers where state = 'crashed'`)).toEqual([]);
  expect(readdirSync(state.locks)).toEqual([]);
});
