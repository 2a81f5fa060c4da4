import { tierNames } from '../../discovery/jobs-folder.ts';
import { Site } from '../../discovery/site.ts';
import { selectRunning } from '../../report/model/runs/run.ts';
import { findHolders, selectWorkersAtWork } from '../../report/model/tier.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import type { Store } from '../../store/store.ts';
import { printableLine } from '../../system/base/text.ts';
import { findLockHolder } from '../../system/lock/lock-file.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import { machineName } from '../../system/process/identity.ts';

/** @throws {StoreUnavailable} while a pass, a worker or a script of this root runs */
export async function assertIdle(root: string, store: Store): Promise<void> {
  const names = await findBusy(root, store);
  if (names.length === 0) return;
  const told = names.map(printableLine).join(', ');
  throw new StoreUnavailable(
    'locked',
    `Not now: ${told} is running. After \`npx folder-runner pause\` nothing begins; try again when that has ended.`,
  );
}

/**
 * The log may have been copied with rows about another machine. For other machines only a lock file counts, which its
 * holder refreshes.
 */
async function findBusy(root: string, store: Store): Promise<string[]> {
  const state = stateFolderOf(root);
  const db = await store.queries();
  const isHere = ({ host }: { readonly host: string }): boolean => host === machineName();
  const env = process.env;
  const site = new Site({ root, env, nowMs: Date.now(), store, problem: null, crontab: async () => null });
  const holders = await findHolders(site, tierNames(root));
  const workers = await selectWorkersAtWork(db);
  const running = await selectRunning({ db, state });
  return [
    ...holders
      .filter((holder) => isHere(holder) || findLockHolder(state.locks, holder.tier) !== null)
      .map(({ tier, pid, host }) => `a pass of ${tier} (pid ${pid} on ${host})`),
    ...workers
      .filter((worker) => worker.tier === null && isHere(worker))
      .map(({ pid, host }) => `a queue worker (pid ${pid} on ${host})`),
    ...running
      .filter((run) => run.isOrphan && run.liveness === 'alive')
      .map(({ script, pid }) => `${script} (pid ${pid})`),
  ];
}
