import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readAnswers, startNode } from '../../support/command.ts';
import type { Guard } from '../../support/faults/locks.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';

const TURNS = 30;
const RACERS = 3;

const child = new URL('take-turns.child.ts', import.meta.url).pathname;

test.each<Guard>(['tier', 'lock-file', 'slot'])(
  'processes that take turns are never in it together: %s',
  async (guard) => {
    const root = makeTemporaryRoot();
    const state = makeStateOf(root);
    const args = [child, root, guard, String(TURNS), String(RACERS)];
    const racers = Array.from({ length: RACERS }, () => startNode(args));
    const answers = await readAnswers<{ wrong: string[] }>(racers);
    expect(answers.flatMap(({ wrong }) => wrong)).toEqual([]);
    expect(readdirSync(state.locks)).toEqual([]);
    if (guard === 'lock-file') return;
    const states = `select state, count(*) as passes from workers where state != 'skipped' group by state`;
    expect(queryLog(root, states)).toEqual([{ state: 'finished', passes: RACERS * TURNS }]);
  },
);
