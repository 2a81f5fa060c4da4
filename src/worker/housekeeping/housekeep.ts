import { uptime } from 'node:os';
import type { UnsentMail } from '../../monitor/alert/deliver.ts';
import { isAllWell } from '../../monitor/checks/all-well.ts';
import type { CheckCode } from '../../monitor/checks/finding.ts';
import type { DueChores } from '../../store/contract/alerts.ts';
import type { Store, StoreSession } from '../../store/contract/store.ts';
import { isOfRuns } from '../../store/words.ts';
import { machineName } from '../../system/process/identity.ts';
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
  const hasEnded = due.open && (await endGone(call));
  const hasNoted = ((due.checks || due.ownChecks) && (await check(call, due))) || hasEnded;
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
    await store.transaction(({ telemetry }) => telemetry.request('otlp', runner.now()));
    open = await ask();
  }
  // Last, and for seconds only: what the steps before have found stands in the log, whatever becomes of this one.
  if (open.deliveries && !stop.isTold) {
    const { deliverDue } = await import('../../monitor/alert/deliver.ts');
    const onUnsent = (unsent: UnsentMail) => void events.emit('unsent', unsent);
    await deliverDue({ runner, store, stop: stop.signal, onUnsent });
  }
}

/** @returns whether an incident has ended with its script, handler or tier */
async function endGone({ store, runner }: StoreInvocation): Promise<boolean> {
  const { endGone } = await import('../../monitor/alert/incidents/end-gone.ts');
  return await endGone(store, { root: runner.root, settings: runner.settings, nowMs: runner.now() });
}

/**
 * Mostly all is well, and was: then there is nothing to note.
 *
 * @returns whether there was
 */
async function check({ store, runner }: StoreInvocation, due: HousekeepingDue): Promise<boolean> {
  const at = runner.now();
  const place = { root: runner.root, states: [runner.state], settings: runner.settings } as const;
  const seen = { ...place, nowMs: at, upMs: uptime() * 1000 };
  if (due.checks && (await isAllWell(store, seen))) {
    await setChecked(store, due, at);
    return false;
  }
  const codes = await codesOf(due);
  const { runChecks } = await import('../../monitor/checks/run-checks.ts');
  const checkedAt = store.fleet === null ? null : await store.chores.doneAt('checks');
  const { findings } = await runChecks(store, seen, codes);
  const isWell = findings.every(({ status }) => status === 'ok');
  if (isWell && !(await (await store.checks()).hasIncidents())) {
    await setChecked(store, due, at);
    return false;
  }
  const isKnown = store.fleet === null ? undefined : await knownHere(store, at, codes);
  const { noteFindings } = await import('../../monitor/alert/incidents/note-findings.ts');
  await store.transaction(async (session) => {
    await session.incidents.lock();
    // Another machine has checked the same in the same moment.
    const isTold = due.checks && isKnown !== undefined && (await session.chores.doneAt('checks')) !== checkedAt;
    if (isTold) return;
    await noteFindings(session, findings, at, isKnown);
    await setChecked(session, due, at);
  }, 'soon');
  return true;
}

/** Which scripts fail, or succeed with a warning, is known from their runs. */
async function codesOf({ checks }: HousekeepingDue): Promise<readonly CheckCode[]> {
  if (!checks) return (await import('../../monitor/checks/finding.ts')).placeCodes;
  const { checkCodes } = await import('../../monitor/checks/run-checks.ts');
  return checkCodes.filter((code) => !isOfRuns(code));
}

async function knownHere(store: Store, at: number, codes: readonly CheckCode[]) {
  const { readKnownHere } = await import('../../monitor/checks/elsewhere.ts');
  return await readKnownHere(store, at, codes);
}

/** Who checks for all checks its own place, too. */
async function setChecked({ chores }: StoreSession, { checks, ownChecks }: HousekeepingDue, at: number): Promise<void> {
  if (checks) await chores.setDone('checks', at);
  if (ownChecks !== undefined) await chores.setDone(`checks ${machineName()}`, at);
}
