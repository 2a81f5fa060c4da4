import { uptime } from 'node:os';
import { isAllWell } from '../../monitor/checks/all-well.ts';
import type { DueChores } from '../../store/contract.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';

interface HousekeepingDue extends DueChores {
  /** The environment names a collector of telemetry, which is told of every invocation. */
  readonly telemetry: boolean;
}

/**
 * What follows from the log, once the jobs are done: hours are closed, checks are run, incidents are told. Each step
 * stands in the log before the next one begins, so that whoever is killed here leaves the rest to the next invocation.
 */
export async function housekeep(call: StoreInvocation, due: HousekeepingDue): Promise<void> {
  const { store, runner, events, stop } = call;
  if (due.hours) {
    const { closeHours } = await import('../../monitor/metrics/close-hours.ts');
    await closeHours(store, runner.now);
  }
  if (due.usual) {
    const { compareRuns } = await import('../../monitor/usual/compare-runs.ts');
    await compareRuns(store);
  }
  const hasNoted = due.checks && (await check(call));
  // Asked anew where what was done here may be the reason: mostly it is not, and neither telling nor sending is loaded.
  const ask = () => store.chores.due(runner.now(), 0);
  let open = due.usual || hasNoted ? await ask() : due;
  if (open.incidents) {
    const { tellIncidents } = await import('../../monitor/alert/incidents/tell.ts');
    const printed = await tellIncidents(store, { runner, prints: events.listenerCount('incidents') > 0 });
    if (printed.length > 0) events.emit('incidents', printed);
    open = await ask();
  }
  if (due.telemetry) {
    await store.telemetry.request('otlp', runner.now());
    open = await ask();
  }
  // Last, and for seconds only: what the steps before have found stands in the log, whatever becomes of this one.
  if (open.deliveries && !stop.isTold) {
    const { deliverDue } = await import('../../monitor/alert/deliver.ts');
    await deliverDue({ runner, store, stop: stop.signal });
  }
}

/**
 * Mostly all is well, and was: then there is nothing to note.
 *
 * @returns whether there was
 */
async function check({ store, runner }: StoreInvocation): Promise<boolean> {
  const at = runner.now();
  const place = { root: runner.root, states: [runner.state], settings: runner.settings } as const;
  const seen = { ...place, nowMs: at, upMs: uptime() * 1000 };
  if (await isAllWell(store, seen)) {
    await store.chores.setDone('checks', at);
    return false;
  }
  const { checkCodes, runChecks } = await import('../../monitor/checks/run-checks.ts');
  // Which scripts fail is known from their runs.
  const codes = checkCodes.filter((code) => code !== 'script-failing');
  const { findings } = await runChecks(store, seen, codes);
  const isWell = findings.every(({ status }) => status === 'ok');
  if (isWell && !(await (await store.checks()).hasIncidents())) {
    await store.chores.setDone('checks', at);
    return false;
  }
  const { noteFindings } = await import('../../monitor/alert/incidents/note-findings.ts');
  await store.transaction(async (session) => {
    await noteFindings(session, findings, at);
    await session.chores.setDone('checks', at);
  }, 'soon');
  return true;
}
