import type { LinkedScript, Script } from '../../discovery/script.ts';
import { hostOf } from '../../queue/add/scripts.ts';
import {
  describeTimeHold,
  findTimeHold,
  isOpen,
  judgeLinks,
  type LinkedRow,
  mayWait,
  namesOf,
  readGates,
} from '../../queue/links.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import type { PassRecorder } from '../loop/pass-recorder.ts';
import type { EndedRun, PassJob } from '../loop/recorder.ts';

interface Linking {
  readonly store: Store;
  /** The session of the transaction that collects the jobs, or the store. */
  readonly session: StoreSession;
  /** The rows of the jobs. */
  readonly rows: readonly ScriptJobRow[];
  /** Whether a person runs the script by name: then it waits for nothing, and uses the ends that there are. */
  readonly isByHand: boolean;
  readonly at: number;
  /** Tells a person at a terminal which scripts their windows keep; null: nobody is there. */
  readonly tell: ((text: string) => void) | null;
}

/** The jobs that a pass runs: without those that wait for scripts which are none of the pass. */
export async function linkJobs(jobs: readonly PassJob[], linking: Linking): Promise<readonly PassJob[]> {
  const rows = new Map(linking.rows.map((row) => [row.id, row]));
  const linked: PassJob[] = [];
  for (const job of jobs) {
    const row = rows.get(job.id as number);
    const free =
      row === undefined || !mayWait(row, job.script)
        ? await keepShut(job, linking)
        : await meetLinks(job, row, linking);
    linked.push(free ?? { ...job, waits: true });
    const hold =
      free === null && linking.tell !== null ? await findTimeHold(job.script, linking.at - clockOffsetMs()) : null;
    if (hold !== null) linking.tell?.(`${job.script.name} ${describeTimeHold(hold, job.script.options)}`);
  }
  return withoutIdle(linked);
}

/** Null: its window is shut. */
async function keepShut(job: PassJob, { isByHand, at }: Pick<Linking, 'isByHand' | 'at'>): Promise<PassJob | null> {
  return isByHand || (await findTimeHold(job.script, at - clockOffsetMs())) === null ? job : null;
}

/**
 * Lets a script run whose links are met. The ends that it uses are written to its row, so that they count once, and so
 * is the time for which it runs.
 *
 * @returns null if it waits
 */
async function meetLinks(
  job: PassJob,
  row: ScriptJobRow,
  { store, session, isByHand, at }: Omit<Linking, 'rows' | 'tell'>,
): Promise<PassJob | null> {
  const { script } = job;
  const gate = (await readGates(store, session, [{ job: row, script }], at - clockOffsetMs())).get(script.name);
  if (gate === undefined || (!isOpen(gate) && !isByHand)) return null;
  const slot = isByHand ? row.scheduled_for : (gate.slot ?? row.scheduled_for);
  if (!(await session.scriptJobs.meetLinks(row, { used: JSON.stringify(gate.ends), scheduledFor: slot }))) return null;
  if (slot === row.scheduled_for) return job;
  return { ...job, scheduledFor: slot, ...(job.seen && { seen: { ...job.seen, scheduled_for: slot } }) };
}

/** Those of a tier's open jobs that may begin. */
export async function findFree(
  store: Store,
  open: readonly ScriptJobRow[],
  scripts: ReadonlyMap<string, Script>,
  at: number,
): Promise<readonly ScriptJobRow[]> {
  const nowMs = at - clockOffsetMs();
  const known = open.flatMap((job) => {
    const script = scripts.get(job.name);
    return script === undefined ? [] : [{ job, script }];
  });
  const linked = known.filter(({ job, script }) => mayWait(job, script));
  const gates = await readGates(store, store, linked, nowMs);
  const kept = new Set<ScriptJobRow>();
  for (const each of known) {
    const gate = linked.includes(each) ? gates.get(each.script.name) : undefined;
    const isFree = gate === undefined ? (await findTimeHold(each.script, nowMs)) === null : isOpen(gate);
    if (!isFree) kept.add(each.job);
  }
  return open.filter((job) => !kept.has(job));
}

/** Leaves out each job that waits, unless a job that it waits for is run by the same pass. */
export function withoutIdle(jobs: readonly PassJob[]): readonly PassJob[] {
  const names = new Set(jobs.map(({ script }) => script.name));
  const left = jobs.filter(({ script, waits }) => !waits || namesOf(script.links).some((name) => names.has(name)));
  return left.length === jobs.length ? jobs : withoutIdle(left);
}

/** For a pass without the log: the jobs whose windows are open, and what keeps the others. */
export async function withoutShut(jobs: readonly PassJob[], at: number) {
  const shut: string[] = [];
  const open: PassJob[] = [];
  for (const job of jobs) {
    const hold = await findTimeHold(job.script, at);
    if (hold === null) open.push(job);
    else shut.push(`${job.script.name} ${describeTimeHold(hold, job.script.options)}`);
  }
  return { open, shut };
}

/** The same for links: the jobs of which some wait for others, without those that wait for any other script. */
export function withoutStrange(jobs: readonly PassJob[]) {
  const strange: Script[] = [];
  let linked = jobs.map((job) => (job.script.links === undefined ? job : { ...job, waits: true as const }));
  for (let count = -1; count !== linked.length; ) {
    count = linked.length;
    const names = new Set(linked.map(({ script }) => script.name));
    const isOwn = ({ script }: PassJob): boolean => namesOf(script.links).every((name) => names.has(name));
    strange.push(...linked.filter((job) => !isOwn(job)).map(({ script }) => script));
    linked = linked.filter(isOwn);
  }
  return { linked, strange };
}

/** Jobs of a pass that wait for other jobs of it. */
export class LinkedJobs {
  readonly #store: Store | null;
  /** The ends of jobs of this pass: without the log, they are all that is known. */
  readonly #ends = new Map<string, LinkedRow>();
  #left: readonly PassJob[];
  #running = 0;
  #ended = Promise.withResolvers<void>();

  /** @param store null: there is no log */
  constructor(jobs: readonly PassJob[], store: Store | null) {
    this.#left = jobs;
    this.#store = store;
  }

  /** Those that still wait. */
  get left(): readonly PassJob[] {
    return this.#left;
  }

  isAwaited(script: string): boolean {
    return this.#left.some((job) => namesOf(job.script.links).includes(script));
  }

  /** Call it before a job of the pass is claimed, and the returned function once it has ended, or none was found. */
  begin(): (hasRun?: boolean) => void {
    this.#running += 1;
    return (hasRun = true) => {
      this.#running -= 1;
      // Executors that find nothing would wake each other for ever.
      if (!hasRun && this.#running > 0) return;
      this.#ended.resolve();
      this.#ended = Promise.withResolvers();
    };
  }

  /** Waits for the end of a job that runs. False: none runs. */
  async untilEnd(): Promise<boolean> {
    if (this.#running === 0) return false;
    await this.#ended.promise;
    return true;
  }

  /**
   * Call it once the end of a job is recorded.
   *
   * @param recorder the recorder of the pass
   * @returns the jobs that need not wait any more
   */
  async free(ended: EndedRun, settled: Settled, recorder: PassRecorder): Promise<readonly PassJob[]> {
    const row = rowOf(ended, settled);
    if (row !== null) this.#ends.set(row.name, row);
    const freed = new Map<PassJob, PassJob>();
    for (const job of this.#left) {
      if (!namesOf(job.script.links).includes(ended.run.name)) continue;
      const free = await this.#tryFree(job, recorder, ended.end.finishedAt);
      if (free !== null) freed.set(job, free);
    }
    this.#left = this.#left.filter((job) => !freed.has(job));
    return [...freed.values()];
  }

  async #tryFree({ waits: _, ...job }: PassJob, recorder: PassRecorder, at: number): Promise<PassJob | null> {
    const store = this.#store;
    const free = store === null ? null : await recorder.askLog(async () => [await meetInLog(store, job, at)] as const);
    return free === null ? this.#freeByOwn(job) : free[0];
  }

  #freeByOwn(job: PassJob): PassJob | null {
    const rowsOf = ({ name }: LinkedScript): readonly LinkedRow[] => {
      const row = this.#ends.get(name);
      return row === undefined ? [] : [row];
    };
    const { waits, ends } = judgeLinks(job.script.links ?? [], {}, rowsOf);
    return waits.length === 0 ? { ...job, usedEnds: ends } : null;
  }
}

async function meetInLog(store: Store, job: PassJob, at: number): Promise<PassJob | null> {
  const rows = await store.scriptJobs.ofTier(job.script.tier);
  const row = rows.find(({ id }) => id === job.id);
  if (row === undefined) return null;
  const linking = { store, isByHand: false, at };
  if (store.fleet !== null) return await meetLinks(job, row, { ...linking, session: store });
  return await store.transaction((session) => meetLinks(job, row, { ...linking, session }), 'soon');
}

/** The row that an end leaves, as far as it is known without the log; null: its job is not over. */
function rowOf({ run, end, startedAt, isRetryable }: EndedRun, { decision }: Settled): LinkedRow | null {
  const { name, script } = run;
  const state = decision?.state ?? stateBy(end.outcome, isRetryable && policyOf(script?.options).maxAttempts > 1);
  if (state === null || state === 'retrying') return null;
  const host = script && hostOf(script);
  return { name, host, state, started_at: startedAt, finished_at: end.finishedAt };
}

function stateBy(outcome: EndedRun['end']['outcome'], mayBeTried: boolean): LinkedRow['state'] | null {
  if (outcome === 'succeeded') return 'finished';
  if (outcome === 'stopped') return 'cancelled';
  return outcome === 'released' || mayBeTried ? null : 'failed';
}
