import type { RunEnd } from '../execution/run-end.ts';
import { readUsualDuration } from '../queue/usual-duration.ts';
import type { Store } from '../store/open-store.ts';
import { type Admission, admitByAll } from './admission.ts';
import { admitWithinBudget } from './budget.ts';
import type { PassJob } from './journal.ts';
import { leaveRest } from './leave-rest.ts';
import { createLogJournal } from './log-journal.ts';
import type { Pass } from './pass.ts';
import { pruneLog } from './prune-log.ts';
import { workOff } from './work-off.ts';

/** Runs the jobs of a pass, then keeps the log in bounds. */
export async function workPass(
  call: Omit<Pass, 'journal' | 'admit'>,
  store: Store,
  workerId: number,
  jobs: readonly PassJob[],
): Promise<readonly RunEnd[]> {
  const { runner, stop } = call;
  const journal = createLogJournal(store, workerId, runner.now);
  const pass: Pass = { ...call, journal, admit: createAdmission(call, store) };
  const { ends, rest } = await workOff(pass, jobs);
  await leaveRest(store.db, rest, { workerId, at: runner.now(), stop });
  await pruneLog(runner, store, workerId);
  return ends;
}

function createAdmission({ budget }: Omit<Pass, 'journal' | 'admit'>, { db }: Store): Admission {
  return admitByAll([
    ...(budget === null ? [] : [admitWithinBudget(budget, ({ name }) => readUsualDuration(db, name))]),
  ]);
}
