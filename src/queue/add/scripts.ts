import { mayHaveToWait, type Script } from '../../discovery/script.ts';
import type { NewScriptJob, ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import { machineName } from '../../system/process/identity.ts';
import { changeByEvent } from '../settle/change-by-event.ts';
import { policyOf } from '../settle/retry-policy.ts';

/** A script's job for this slot. */
export function newJobOf(
  { script, scheduledFor }: { readonly script: Script; readonly scheduledFor: number | null },
  at: number,
): NewScriptJob {
  const { name, tier } = script;
  return { name, tier, host: hostOf(script), scheduledFor, at, mayHaveToWait: mayHaveToWait(script) };
}

/** The only machine that a job of this script is for; null: any that has it. */
export function hostOf({ options }: Script): string | null {
  return options.everyHost === true || options.reboot === true ? machineName() : null;
}

/** Clocks of two hosts, or of one before and after it is corrected, are that far apart at most. */
const CORRECTION_MS = 60_000;

/**
 * Waits for nothing but to be run: queued, or its next try is due. One that is further ahead than any
 * delay of this script, or whose last try began in what is the future now, was set while the clock was ahead.
 */
export function isDue(
  { state, run_at, started_at }: Pick<ScriptJobRow, 'state' | 'run_at' | 'started_at'>,
  script: Script | undefined,
  at: number,
): boolean {
  if (state !== 'retrying') return state === 'queued';
  if (run_at <= at || (started_at ?? 0) > at + CORRECTION_MS) return true;
  if (script === undefined) return false;
  const { delay } = policyOf(script.options);
  return run_at - at > Math.max(delay.firstMs, delay.longestMs) + CORRECTION_MS;
}

interface Deferral {
  readonly workerId: number;
  readonly at: number;
  /** Why they were not started: "the load average is 7.2 (maxLoad 4)". */
  readonly reason: string;
}

/** Leaves jobs open for the next pass of any tier, and says why. To be called in a transaction. */
export async function deferScripts(
  session: StoreSession,
  jobs: readonly Pick<ScriptJobRow, 'id'>[],
  { workerId, at, reason }: Deferral,
): Promise<void> {
  const changes = jobs.map(({ id }) => ({ id, set: { reason } }));
  await changeByEvent(session, changes, { at, event: 'job-deferred', workerId, detail: reason });
}
