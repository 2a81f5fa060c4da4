import { uptime } from 'node:os';
import type { UnsentMail } from '../../monitor/alert/deliver.ts';
import type { IncidentRow } from '../../store/schema.ts';
import type { DueChores } from '../../store/statements/monitor/alerts.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { isOfRuns } from '../../store/words.ts';
import { machineName } from '../../system/process/identity.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';

/**
 * The work on the log once the jobs are done: it closes hours, runs checks and reports incidents. Each step is in the
 * log before the next one begins, so a process that is killed here leaves the rest to the next invocation.
 */
export async function housekeep(call: StoreInvocation, due: DueChores): Promise<void> {
  const { store, runner, events, stop } = call;
  if (due.hours) {
    const { closeHours } = await import('../../monitor/metrics/hours.ts');
    await closeHours(store, runner.now);
  }
  const hasEnded = due.open && (await endGone(call));
  const hasNoted = ((due.checks || due.ownChecks) && (await check(call, due))) || hasEnded;
  // Ask again only if this call may have changed the answer: usually it has not, and neither reporting nor sending is
  // loaded.
  const ask = () => store.chores.due(runner.now(), 0);
  let open = hasNoted ? await ask() : due;
  if (open.incidents) {
    const { tellIncidents } = await import('../../monitor/alert/tell.ts');
    const printed = await tellIncidents(store, { runner, prints: events.listenerCount('incidents') > 0 });
    if (printed.length > 0) events.emit('incidents', printed);
    open = await ask();
  }
  // This comes last and takes only seconds: the findings of earlier steps are in the log, whatever happens here.
  if (open.deliveries && !stop.isTold) {
    const { deliverDue } = await import('../../monitor/alert/deliver.ts');
    const onUnsent = (unsent: UnsentMail) => void events.emit('unsent', unsent);
    await deliverDue({ runner, store, stop: stop.signal, onUnsent });
  }
}

/** @returns whether an incident has ended because its script, handler or tier is gone */
async function endGone({ store, runner }: StoreInvocation): Promise<boolean> {
  const { endGone } = await import('../../monitor/alert/incidents.ts');
  return await endGone(store, { root: runner.root, settings: runner.settings, nowMs: runner.now() });
}

/**
 * Runs the checks. Usually all is well and was before; then nothing is noted.
 *
 * @returns whether something was noted
 */
async function check({ store, runner, crontab }: StoreInvocation, due: DueChores): Promise<boolean> {
  const at = runner.now();
  const place = {
    root: runner.root,
    states: [runner.state],
    settings: runner.settings,
    ...(crontab && { crontab }),
  } as const;
  const { checkCodes, ownCodes, runChecks } = await import('../../checks/list.ts');
  // Checks of runs are left out: the runs themselves show which scripts fail or succeed with a warning.
  const codes = due.checks ? checkCodes.filter((code) => !isOfRuns(code)) : ownCodes;
  const checkedAt = store.fleet === null ? null : await store.chores.doneAt('checks');
  const { findings } = await runChecks(store, { ...place, nowMs: at, upMs: uptime() * 1000 }, codes);
  const isWell = findings.every(({ status }) => status === 'ok');
  if (isWell && !(due.open && (await hasIncidentsOfChecks(store)))) {
    await setChecked(store, due, at);
    return false;
  }
  const isKnown = store.fleet === null ? undefined : await knownHere(store, at, codes, ownCodes);
  const { noteFindings } = await import('../../monitor/alert/incidents.ts');
  await store.transaction(async (session) => {
    await incidentsOf(session.statements).lock();
    // Another machine made the same check at the same moment.
    const isTold = due.checks && isKnown !== undefined && (await session.chores.doneAt('checks')) !== checkedAt;
    if (isTold) return;
    await noteFindings(session, findings, at, isKnown);
    await setChecked(session, due, at);
  }, 'soon');
  return true;
}

async function hasIncidentsOfChecks({ statements }: Store): Promise<boolean> {
  return (await incidentsOf(statements).current()).some(({ code }) => !isOfRuns(code));
}

/** Tells which incidents this machine would still find: all that it has checked, but not those of another machine. */
async function knownHere(store: Store, at: number, checked: readonly string[], ownCodes: readonly string[]) {
  const { machinesElsewhere } = await import('../../monitor/machines.ts');
  const others = await machinesElsewhere(store, at);
  return ({ code, subject }: IncidentRow): boolean =>
    checked.includes(code) && !(ownCodes.includes(code) && others.includes(subject.slice(subject.indexOf('@') + 1)));
}

/** A machine that runs the checks for all has checked its own place, too. */
async function setChecked({ chores }: StoreSession, { checks, ownChecks }: DueChores, at: number): Promise<void> {
  if (checks) await chores.setDone('checks', at);
  if (ownChecks !== undefined) await chores.setDone(`checks ${machineName()}`, at);
}
