import type { Link, LinkedScript, LinkKind, Script } from '../discovery/script.ts';
import { isCopyFor, machinesOf } from '../store/statements/registers.ts';
import type { ScriptJobRow } from '../store/statements/script-jobs.ts';
import type { Store, StoreSession } from '../store/store.ts';
import type { JobState } from '../store/words.ts';
import { isExecName } from '../system/base/exec-name.ts';
import { machineName } from '../system/process/identity.ts';
import { hostOf } from './add/scripts.ts';

/** The facts of a script's row that count for those who wait for it. */
export type LinkedRow = Pick<ScriptJobRow, 'name' | 'host' | 'state' | 'started_at' | 'finished_at'>;

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
}

/** Whether a script may run, as far as its links decide. */
export interface Gate {
  /** Empty: it may run. */
  readonly waits: readonly Wait[];
  /** The ends that its run uses, with those that it has used before. */
  readonly ends: UsedEnds;
}

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
): Gate {
  const ends: Record<string, number> = { ...used };
  const waits: Wait[] = [];
  for (const { kind, scripts } of links) {
    const judged = scripts.map((script) => {
      const rows = rowsOf(script);
      for (const row of rows) if (row.finished_at !== null) ends[keyOf(row)] = row.finished_at;
      const found = rows.flatMap((row) => judgeRow(kind, row, used) ?? []);
      const never: Wait = { kind, script: script.name, host: null, cause: 'never', state: null, endedAt: null };
      return rows.length === 0 ? [never] : found;
    });
    // One failure is enough; all must have succeeded, or ended.
    const isMet = kind === 'afterFailure' && judged.some((found) => found.length === 0);
    if (!isMet) waits.push(...judged.flat());
  }
  return { waits, ends };
}

/** Null: it has come to an end that is wanted, and not used yet. */
function judgeRow(kind: LinkKind, row: LinkedRow, used: UsedEnds): Wait | null {
  const { name: script, host, state, finished_at: endedAt } = row;
  const cause = causeOf(kind, row, used);
  return cause === null ? null : { kind, script, host, cause, state, endedAt };
}

function causeOf(kind: LinkKind, row: LinkedRow, used: UsedEnds): WaitCause | null {
  if (row.finished_at === null) return 'open';
  const hasBegun = row.state !== 'cancelled' || row.started_at !== null;
  if (!wantedStates[kind].includes(row.state) || !hasBegun) return 'other';
  return used[keyOf(row)] === row.finished_at ? 'used' : null;
}

const keyOf = ({ name, host }: Pick<LinkedRow, 'name' | 'host'>): string => (host === null ? name : `${name}@${host}`);

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

/** Whether the links of a script decide whether its job may begin: not any more once they were met, or it was tried. */
export function mayWait(
  job: Pick<ScriptJobRow, 'state' | 'links_met'>,
  script: Pick<Script, 'links'> | undefined,
): boolean {
  return script?.links !== undefined && job.links_met !== 1 && job.state === 'queued';
}

/** A script that waits for others, with its row. */
export interface LinkedJob {
  readonly job: Pick<ScriptJobRow, 'ends_used'>;
  readonly script: Script;
}

/** The gates of such jobs, by the names of their scripts, as the log has them now. */
export async function readGates(
  store: Store,
  { scriptJobs }: Pick<StoreSession, 'scriptJobs'>,
  jobs: readonly LinkedJob[],
): Promise<ReadonlyMap<string, Gate>> {
  const names = new Set(jobs.flatMap(({ script }) => namesOf(script.links)));
  const rows = names.size === 0 ? [] : await scriptJobs.named([...names]);
  const hasRow = await readPlaces(store, rows);
  return new Map(
    jobs.map(({ job, script }) => {
      const rowsOf = (linked: LinkedScript) => rows.filter((row) => countsFor(script, linked, row) && hasRow(row));
      return [script.name, judgeLinks(script.links ?? [], readUsedEnds(job), rowsOf)];
    }),
  );
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
