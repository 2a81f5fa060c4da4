import type { Script } from '../../discovery/script.ts';
import type { Invocation } from '../invocation/invocation.ts';
import { ifLogAllows, withStore } from '../invocation/with-store.ts';
import { endLeftCommands } from './end-left.ts';
import { runPass, withPings } from './run-pass.ts';
import type { CallSummary } from './run-tier.ts';

/** Runs a command of `runner exec` as a pass over a tier of its own, and makes its further tries itself. */
export async function runExec(call: Invocation, script: Script): Promise<CallSummary> {
  const tier = { name: script.tier, periodMs: null, scripts: [script] };
  const request = { kind: 'script' as const, tier, scripts: [script] };
  return await withStore(
    call,
    async (logged) => {
      await ifLogAllows(call, () => endLeftCommands(logged));
      const ends = await runPass(logged, request);
      await ifLogAllows(call, () => endLeftCommands(logged));
      return { ends };
    },
    async (reason) => {
      const { runWithoutLog } = await import('./run-without-store.ts');
      return { ends: await withPings(call, request, () => runWithoutLog(call, request, reason)) };
    },
  );
}
