import {
  hasWindow,
  type Link,
  type LinkedScript,
  type LinkKind,
  mayHaveToWait,
  type Script,
} from '../discovery/script.ts';
import type { Pause } from '../store/statements/pauses.ts';
import { isCopyFor, machinesOf } from '../store/statements/registers.ts';
import type { ScriptJobRow } from '../store/statements/script-jobs.ts';
import type { Store, StoreSession } from '../store/store.ts';
import type { JobState } from '../store/words.ts';
import { isExecName } from '../system/base/exec-name.ts';
import { printableName } from '../system/base/values.ts';
import { machineName } from '../system/process/identity.ts';
import { hostOf } from './add/scripts.ts';
import { findPause } from './pauses.ts';

/** The facts of a script's row that count for those who wait for it. */
export type LinkedRow = Pick<ScriptJobRow, 'name' | 'host' | 'state' | 'started_at' | 'finished_at'> &
  Partial<Pick<ScriptJobRow, 'links_met' | 'scheduled_for'>>;

/** The ends that a script has used, each once: `finished_at` by the name of the script, or by its name and machine. */
export type UsedEnds = Readonly<Record<string, number>>;

/**
 * Why a link keeps a script from running. `never`: the other script has no row; `open`: it is queued, runs, or is tried
 * again; `other`: it ended otherwise than is wanted; `used`: that end was used by the run before.
 */
export type WaitCause = 'never' | 'open' | 'other' | 'used';

/** Another script that has not come to the end that is wanted. */
export interface Wait {
  readonly kind: LinkKind;
  readonly script: string;
  /** Null: any machine. */
  readonly host: string | null;
  readonly cause: WaitCause;
  /** The state of the other one; null: it has no row. */
  readonly state: JobState | null;
  readonly endedAt: number | null;
  readonly isDisabled: boolean;
  /** Whether the other one waits for others itself. */
  readonly isLinked: boolean;
}

/** Whether a script may run, as far as its links decide. */
export interface JudgedLinks {
  /** Empty: it may run. */
  readonly waits: readonly Wait[];
  /** The ends that its run uses, with those that it has used before. */
  readonly ends: UsedEnds;
  /** The earliest time for which a script was queued that has come to an end which is wanted; null: unknown, or none. */
  readonly endsFor: number | null;
}

/** Whether a script that is queued may run now. */
export interface Gate extends JudgedLinks {
  /** The time before which its own tags let it not run; null: none. */
  readonly hold: TimeHold | null;
  /** The time of its schedule for which it would run; null: that for which it was queued. */
  readonly slot: number | null;
}

/** Why a script does not run yet, although others do not keep it. */
export interface TimeHold {
  /** `window`: its `@between`. `lapsed`: what it waited for came on the day of its next time. */
  readonly cause: 'window' | 'lapsed';
  readonly untilMs: number;
}

/** Whether nothing keeps a script from running. */
export const isOpen = ({ waits, hold }: Pick<Gate, 'waits' | 'hold'>): boolean => waits.length === 0 && hold === null;

const wantedStates: Readonly<Record<LinkKind, readonly JobState[]>> = {
  after: ['finished'],
  afterFailure: ['failed'],
  always: ['finished', 'failed', 'cancelled'],
};

/**
 * Judges the links of a script by the rows of the others. An end counts once. Two ends differ if their instants do,
 * whichever is later, so that a clock that is set changes nothing.
 */
export function judgeLinks(
  links: readonly Link[],
  used: UsedEnds,
  rowsOf: (script: LinkedScript) => readonly LinkedRow[],
): JudgedLinks {
  const ends: Record<string, number> = { ...used };
  const waits: Wait[] = [];
  let endsFor: number | null = null;
  for (const { kind, scripts } of links) {
    const judged = scripts.map((script) => {
      const rows = rowsOf(script);
      for (const row of rows) if (row.finished_at !== null) ends[keyOf(row)] = row.finished_at;
      const about = { kind, script: script.name, isDisabled: script.isDisabled === true };
      const never: Wait = { ...about, host: null, cause: 'never', state: null, endedAt: null, isLinked: false };
      if (rows.length === 0) return [never];
      return rows.flatMap(({ host, state, finished_at: endedAt, ...row }): Wait[] => {
        const cause = causeOf(kind, { ...row, host, state, finished_at: endedAt }, used);
        if (cause !== null)
          return [{ ...about, host, cause, state, endedAt, isLinked: state === 'queued' && row.links_met === 0 }];
        const queuedFor = row.scheduled_for ?? row.started_at;
        if (queuedFor !== null) endsFor = Math.min(endsFor ?? queuedFor, queuedFor);
        return [];
      });
    });
    // One failure is enough; all must have succeeded, or ended.
    const isMet = kind === 'afterFailure' && judged.some((found) => found.length === 0);
    if (!isMet) waits.push(...judged.flat());
  }
  return { waits, ends, endsFor };
}

/** Judges what the clock decides about a script that is queued. */
async function judgeTimes(linked: LinkedJob, judged: JudgedLinks, nowMs: number): Promise<Pick<Gate, 'hold' | 'slot'>> {
  const { between, schedule } = linked.script.options;
  if (between === undefined && schedule === undefined) return { hold: null, slot: null };
  const { lapsedUntil, slot } = await judgeSlot(linked, judged, nowMs);
  const { openingAt } = await import('../schedule/script-times.ts');
  const untilMs = await openingAt(linked.script.options, lapsedUntil ?? nowMs);
  const cause = lapsedUntil === null ? 'window' : 'lapsed';
  return { hold: untilMs > nowMs ? { cause, untilMs } : null, slot };
}

/** The hold of a script's window: it also keeps a script that waits for no other one any more, or is tried again. */
export async function findTimeHold(script: Script, nowMs: number): Promise<TimeHold | null> {
  if (!hasWindow(script)) return null;
  const { openingAt } = await import('../schedule/script-times.ts');
  const untilMs = await openingAt(script.options, nowMs);
  return untilMs > nowMs ? { cause: 'window', untilMs } : null;
}

/**
 * Judges the time of a script that has some of its own, and whose links are met. Its time lapses when the day of the
 * next one begins: a success of that day's scripts lets it run at that next time, so that it does not run a day late
 * from then on. Ends of scripts that were queued before count as long as there are any, however long those ran.
 */
async function judgeSlot(
  { job: { scheduled_for: queuedFor }, script: { options } }: LinkedJob,
  { waits, endsFor }: JudgedLinks,
  nowMs: number,
): Promise<{ readonly slot: number | null; readonly lapsedUntil: number | null }> {
  const { ruleOf, slotAt } = await import('../schedule/script-times.ts');
  const rule = ruleOf(options);
  // A job that a boot has queued has no time.
  if (rule === null || options.reboot || queuedFor === null) return { slot: null, lapsedUntil: null };
  const { at: slot, lapsesMs, nextMs } = await slotAt(rule, queuedFor, nowMs);
  const hasLapsed = lapsesMs !== null && lapsesMs <= nowMs && endsFor !== null && lapsesMs <= endsFor;
  return { slot, lapsedUntil: hasLapsed && waits.length === 0 ? nextMs : null };
}

/** Null: it has come to an end that is wanted, and not used yet. */
function causeOf(kind: LinkKind, row: LinkedRow, used: UsedEnds): WaitCause | null {
  if (row.finished_at === null) return 'open';
  const hasBegun = row.state !== 'cancelled' || row.started_at !== null;
  if (!wantedStates[kind].includes(row.state) || !hasBegun) return 'other';
  return used[keyOf(row)] === row.finished_at ? 'used' : null;
}

const keyOf = ({ name, host }: Pick<LinkedRow, 'name' | 'host'>): string => (host === null ? name : `${name}@${host}`);

/** Most scripts to name in a sentence. */
const MOST_NAMED = 3;

const verbs: Readonly<Record<LinkKind, string>> = {
  after: 'waits for',
  afterFailure: 'waits for a failure of',
  always: 'waits for the end of',
};

const ended: Partial<Readonly<Record<JobState, string>>> = {
  finished: 'succeeded',
  failed: 'failed',
  cancelled: 'was stopped',
};

/** An instant as in other sentences of the log, which a view shows by its own clock. */
const asInstant = (atMs: number): string => new Date(atMs).toISOString();

/** "waits for hourly/fetch, which failed 2026-11-03T14:05:09.123Z"; empty: for nothing. */
export function describeGate(
  { waits, hold }: Pick<Gate, 'waits' | 'hold'>,
  options: Script['options'],
  pauses: readonly Pause[],
): string {
  return [...(hold === null ? [] : [describeTimeHold(hold, options)]), describeWaits(waits, pauses)]
    .filter(Boolean)
    .join('; ');
}

/** "waits until 2026-11-03T21:00:00.000Z, as its @between 22:00 and 05:00 says" */
export function describeTimeHold({ cause, untilMs }: TimeHold, { between }: Script['options']): string {
  const until = `waits until ${asInstant(untilMs)}`;
  if (cause === 'window') return `${until}, as its @between ${printableName(between ?? '')} says`;
  return `${until}, its next time, because the day of its last one is over`;
}

/** The same of other scripts. */
export function describeWaits(waits: readonly Wait[], pauses: readonly Pause[], tellTime = asInstant): string {
  const kinds = Map.groupBy(waits, ({ kind }) => kind);
  const parts = [...kinds].map(([kind, ofKind]) => {
    const named = ofKind.slice(0, MOST_NAMED).map((wait) => describeWait(wait, pauses, tellTime));
    const more = ofKind.length - named.length;
    const joint = kind === 'afterFailure' ? ' or ' : ' and ';
    return `${verbs[kind]} ${[...named, ...(more > 0 ? [`${more} more`] : [])].join(joint)}`;
  });
  return parts.join('; ');
}

function describeWait(wait: Wait, pauses: readonly Pause[], tellTime: typeof asInstant): string {
  const { kind, script, host, isDisabled } = wait;
  const name = printableName(host === null ? script : `${script} on ${host}`);
  if (isDisabled) return `${name}, which is disabled`;
  if (findPause(pauses, script) !== null) return `${name}, which is paused`;
  return kind === 'afterFailure' ? name : `${name}, which ${describeStand(wait, tellTime)}`;
}

function describeStand({ cause, state, endedAt, isLinked }: Wait, tellTime: typeof asInstant): string {
  if (isLinked) return 'waits for others itself';
  if (cause === 'never' || state === null || endedAt === null) {
    if (state === null) return 'has never run';
    if (state === 'retrying') return 'has failed, and is to be tried again';
    return state === 'queued' ? 'is queued' : 'is running';
  }
  return `${cause === 'used' ? 'last ' : ''}${ended[state] ?? 'ended'} ${tellTime(endedAt)}`;
}

/** How a script stands that may have to wait. */
export interface Stand {
  readonly gate: Gate;
  /** When it was queued, or is tried again, if it waits now; null: it does not. */
  readonly queuedAt: number | null;
}

/** Null: the script never waits, or is refused. */
export async function readStand(store: Store, script: Script, nowMs: number): Promise<Stand | null> {
  if (!mayHaveToWait(script)) return null;
  const rows = await store.scriptJobs.named([script.name]);
  const job = rows.find(({ host }) => host === hostOf(script));
  if (job !== undefined && job.finished_at === null && !mayWait(job, script)) {
    // It waits for no others any more.
    const hold = await findTimeHold(script, Math.max(nowMs, job.run_at));
    const isIdle = hold !== null && (job.state === 'queued' || job.state === 'retrying');
    if (isIdle) return { gate: { ...nothing, hold }, queuedAt: job.run_at };
  }
  const gates = await readGates(store, store, [{ job: job ?? unqueued, script }], nowMs);
  const gate = gates.get(script.name) as Gate;
  const isWaiting = job !== undefined && mayWait(job, script) && !isOpen(gate);
  return { gate, queuedAt: isWaiting ? job.run_at : null };
}

const unqueued = { ends_used: null, scheduled_for: null };
const nothing = { waits: [], ends: {}, endsFor: null, slot: null };

/** A site's log, and the pauses in force. */
interface Readable {
  readonly store: Store | null;
  readonly nowMs: number;
  readonly pauses: () => Promise<readonly Pause[]>;
}

/** A stand in words: what the script waits for, empty if for nothing. Null: it never waits, is refused, or has no log. */
export async function readWordedStand({ store, nowMs, pauses }: Readable, script: Script) {
  const stand = store && (await readStand(store, script, nowMs));
  if (stand === null) return null;
  const { gate, queuedAt: sinceMs } = stand;
  return { text: describeGate(gate, script.options, await pauses()), sinceMs, untilMs: gate.hold?.untilMs ?? null };
}

/**
 * The order in which a pass would run these scripts if none failed, without those that would wait.
 *
 * @param gates those of scripts that may have to wait, by name
 */
export function foreseeOrder(
  scripts: readonly Script[],
  gates: ReadonlyMap<string, Pick<Gate, 'waits' | 'hold'>>,
): readonly string[] {
  const order: string[] = [];
  const left = new Map(scripts.map((script) => [script.name, script]));
  const isFree = ({ name, links = [] }: Script): boolean => {
    const gate = gates.get(name);
    if (gate === undefined) return true;
    if (gate.hold !== null) return false;
    // Those of the pass succeed in it; until then they count as open.
    if (namesOf(links).some((each) => left.has(each) && each !== name)) return false;
    return gate.waits.every(({ kind, script }) => kind !== 'afterFailure' && order.includes(script));
  };
  for (let next = scripts.find(isFree); next !== undefined; next = [...left.values()].find(isFree)) {
    order.push(next.name);
    left.delete(next.name);
  }
  return order;
}

/** The ends that a script has used, by its row. */
export function readUsedEnds({ ends_used }: Pick<ScriptJobRow, 'ends_used'>): UsedEnds {
  if (ends_used === null) return {};
  try {
    const ends: unknown = JSON.parse(ends_used);
    return typeof ends === 'object' && ends !== null ? (ends as UsedEnds) : {};
  } catch {
    // Only plain SQL can have written it.
    return {};
  }
}

/** The waits that are to end by themselves: a script may wait for a failure as long as there is none. */
export const withoutFailures = (waits: readonly Wait[]): readonly Wait[] =>
  waits.filter(({ kind }) => kind !== 'afterFailure');

/** Whether others decide whether the job of a script may begin: not any more once they have, or it was tried. */
export function mayWait(job: Pick<ScriptJobRow, 'state' | 'links_met'>, script: Script | undefined): boolean {
  return script !== undefined && mayHaveToWait(script) && job.links_met !== 1 && job.state === 'queued';
}

/** A script that waits for others, with its row. */
export interface LinkedJob {
  readonly job: Pick<ScriptJobRow, 'ends_used' | 'scheduled_for'>;
  readonly script: Script;
}

/**
 * The gates of such jobs, by the names of their scripts, as the log has them now.
 *
 * @param nowMs by the clock of this machine, as schedules go by it
 */
export async function readGates(
  store: Store,
  { scriptJobs }: Pick<StoreSession, 'scriptJobs'>,
  jobs: readonly LinkedJob[],
  nowMs: number,
): Promise<ReadonlyMap<string, Gate>> {
  const names = new Set(jobs.flatMap(({ script }) => namesOf(script.links)));
  const rows = names.size === 0 ? [] : await scriptJobs.named([...names]);
  const hasRow = await readPlaces(store, rows);
  const gates = new Map<string, Gate>();
  for (const { job, script } of jobs) {
    const rowsOf = (linked: LinkedScript) => rows.filter((row) => countsFor(script, linked, row) && hasRow(row));
    const judged = judgeLinks(script.links ?? [], readUsedEnds(job), rowsOf);
    gates.set(script.name, { ...judged, ...(await judgeTimes({ job, script }, judged, nowMs)) });
  }
  return gates;
}

/** Whether a machine still has the script of a row that is for this machine alone. */
async function readPlaces({ fleet, statements }: Store, rows: readonly LinkedRow[]) {
  const ofMachines = rows.filter(({ host }) => host !== null);
  if (ofMachines.length === 0) return () => true;
  if (fleet === null) return ({ host }: LinkedRow) => host === null || host === machineName();
  const machines = machinesOf(statements);
  const copies = await machines.copies({ names: ofMachines.map(({ name }) => name) });
  const places = new Set(copies.filter((copy) => isCopyFor(copy, copy.host)).map(keyOf));
  // A command has no copy, as it has no file.
  const hosts = ofMachines.some(({ name }) => isExecName(name)) ? await machines.list() : [];
  const isThere = ({ name, host }: LinkedRow) => isExecName(name) && hosts.some((each) => each.host === host);
  return (row: LinkedRow) => row.host === null || places.has(keyOf(row)) || isThere(row);
}

/** The names of all scripts that links name. */
export function namesOf(links: readonly Link[] = []): readonly string[] {
  return links.flatMap(({ scripts }) => scripts.map(({ name }) => name));
}

/** One that runs on each machine waits for the others on its own; any other one waits for all machines that there are. */
function countsFor(script: Script, linked: LinkedScript, { name, host }: LinkedRow): boolean {
  if (name !== linked.name) return false;
  if (!linked.isOnEachHost) return host === null;
  return host !== null && (hostOf(script) === null || host === machineName());
}
