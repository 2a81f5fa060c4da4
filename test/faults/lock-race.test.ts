import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { identifyProcess } from '../../src/system/process/identity.ts';
import { readAnswers, startNode } from '../support/command.ts';
import { identifyDeadProcess } from '../support/faults/faults.ts';
import { type Guard, leaveLock } from '../support/faults/locks.ts';
import { rounds } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { writeLog } from '../support/written-log.ts';

const ROUNDS = rounds(200);

const child = new URL('../support/faults/race.child.ts', import.meta.url).pathname;

/** One tier for each round, each left by a worker that died: its row and its lock file. */
async function leaveTiers(root: string, pid: number): Promise<void> {
  const { addPass, state } = await writeLog(root);
  const dead = { ...identifyProcess(pid), since: 0 };
  for (let round = 0; round < ROUNDS; round += 1) {
    const tier = `round-${round}`;
    await addPass(tier, 0, { state: 'running', pid });
    leaveLock(state.locks, tier, dead, round % 2 === 0 ? 600_000 : 0);
  }
}

/** Takes the processors away from those that race, in other places each time. */
function loadProcessors(): void {
  for (let count = 0; count < 2; count += 1) startNode(['--eval', 'for (;;);']);
}

test.each<[Guard, number, 'alone' | 'under load']>([
  ['tier', 4, 'under load'],
  ['tier', 8, 'alone'],
  ['lock-file', 4, 'under load'],
  ['lock-file', 8, 'alone'],
  ['slot', 4, 'under load'],
])(
  `of the processes that race for a dead one’s %s exactly one wins, each of ${ROUNDS} times: %i, %s`,
  async (guard, racers, load) => {
    const root = makeTemporaryRoot();
    const { pid } = identifyDeadProcess();
    await leaveTiers(root, pid);
    if (load === 'under load') loadProcessors();
    const args = [child, root, guard, String(ROUNDS), String(racers)];
    const started = Array.from({ length: racers }, () => startNode(args));
    const won = await readAnswers<{ round: number; takenOverFrom: string | null }[]>(started);
    const byRound = won.flat().toSorted((one, other) => one.round - other.round);
    expect(byRound.map(({ round }) => round)).toEqual(Array.from({ length: ROUNDS }, (_, i) => i));
    const told = byRound.map(({ takenOverFrom }) => takenOverFrom?.match(/\d+/)?.[0]);
    expect(new Set(told)).toEqual(new Set([String(pid)]));
    expect(readdirSync(`${root}/.runner/locks`).filter(() => guard !== 'slot')).toEqual([]);
    if (guard === 'lock-file') return;
    const states = 'select state, count(*) as workers from workers group by state order by state';
    expect(queryLog(root, states)).toEqual([
      { state: 'crashed', workers: ROUNDS },
      { state: 'finished', workers: ROUNDS },
      { state: 'skipped', workers: (racers - 1) * ROUNDS },
    ]);
    const takeovers = `select worker_id from activity where event = 'lock-taken-over'`;
    expect(queryLog(root, takeovers)).toHaveLength(ROUNDS);
  },
  120_000,
);
