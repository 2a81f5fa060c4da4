import type { Script } from '../../discovery/script.ts';
import type { KeptEnd } from '../../execution/result/result.ts';
import { findLockHolder } from '../../system/lock/lock-file.ts';
import type { CallSummary, Invocation, TierRequest } from '../invocation/invocation.ts';
import { ifLogAllows, withStore } from '../invocation/with-store.ts';
import { endLeftCommands } from './end-left.ts';
import { runPass, withPings } from './run-pass.ts';

type RunOne = (request: TierRequest) => Promise<readonly KeptEnd[] | null>;

/**
 * Runs a command of `runner exec` as a pass over a tier of its own, and makes its further tries itself.
 *
 * @param scriptAt the command as the first, second … of those of its name that run at the same time
 * @param mayOverlap whether it runs beside others of its name
 */
export async function runExec(
  call: Invocation,
  scriptAt: (nth: number) => Script,
  mayOverlap: boolean,
): Promise<CallSummary> {
  return await withStore(
    call,
    async (logged) => {
      await ifLogAllows(call, () => endLeftCommands(logged));
      const ends = await runBeside(call, scriptAt, mayOverlap, (request) => runPass(logged, request));
      await ifLogAllows(call, () => endLeftCommands(logged));
      return { ends };
    },
    async (reason) => {
      const { runWithoutLog } = await import('./run-without-store.ts');
      const run: RunOne = (request) => withPings(call, request, () => runWithoutLog(call, request, reason));
      return { ends: await runBeside(call, scriptAt, mayOverlap, run) };
    },
  );
}

/** Cron itself has no limit; but nobody wants more than this of one line. */
const MOST_AT_ONCE = 100;

/** A call that is paused, or stopped, runs under no other name. */
async function runBeside(
  call: Invocation,
  scriptAt: (nth: number) => Script,
  mayOverlap: boolean,
  run: RunOne,
): Promise<readonly KeptEnd[] | null> {
  const { events, runner, stop } = call;
  let isPaused = false;
  events.on('pass-skipped', (skipped) => {
    isPaused ||= skipped.isPaused === true;
  });
  for (let nth = 1; ; nth += 1) {
    const script = scriptAt(nth);
    const isLast = !mayOverlap || nth === MOST_AT_ONCE;
    if (!isLast && findLockHolder(runner.state.locks, script.name) !== null) continue;
    const tier = { name: script.tier, periodMs: null, scripts: [script] };
    const ends = await run({ kind: 'script', tier, scripts: [script] });
    if (isLast || isPaused || stop.reason !== null || (ends?.length ?? 0) > 0) return ends;
  }
}
