import { describeExcess } from '../../child/contract.ts';
import { initialTime } from '../../schedule/repeat/series.ts';
import type { JobRow } from '../../store/schema.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { ClaimedRow, ClaimRequest, Selection } from '../../store/statements/claims.ts';
import { compareTurns } from '../../store/statements/job-rows.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { ClaimRef, LastingRun } from '../../store/statements/runs.ts';
import type { StoreSession } from '../../store/store.ts';
import { isKey, isWaiting, KEY, LEAST_MS } from '../../store/words.ts';
import { matchAny } from '../../system/base/glob.ts';
import { describeFound } from '../../system/base/values.ts';
import { pausedPatterns } from '../pauses.ts';
import { judgeChild, stateOfRetriedChild } from '../settle/families.ts';
import { readRetry } from '../settle/own-retry.ts';
import { endJobs } from '../settle/settle.ts';
import { unclaimed } from '../settle/transition.ts';

/** Which jobs may be handed out now. */
export interface QueueSelection extends Selection {
  /** Whether jobs of this name fail instead of being claimed. */
  failsFast(name: string): boolean;
}

/** Selects the wanted jobs, without the paused ones. */
export function selectionOf(
  isWanted: (name: string) => boolean,
  pauses: readonly Pause[],
  groupLimit: number | null,
): QueueSelection {
  const { paused, failFast } = pausedPatterns(pauses);
  return {
    groupLimit,
    isWanted: (name) => isWanted(name) && !matchAny(paused, name),
    failsFast: (name) => matchAny(failFast, name),
  };
}

export interface QueueClaim extends Omit<ClaimRequest, 'selection'> {
  readonly selection: QueueSelection;
  readonly missedCap: number;
  /** Collects jobs that fail instead of being claimed because their rows are wrong. */
  readonly unbegun?: UnbegunJob[];
}

/** A job that has failed before its first try. */
export interface UnbegunJob {
  readonly job: ClaimedRow;
  readonly reason: string;
}

/** Most jobs to refuse in one transaction: nobody else can write during it. */
const MOST_REFUSED = 500;

/** Claims the next jobs, at most `count`. Call it in a transaction. */
export async function claimJobs(session: StoreSession, claim: QueueClaim): Promise<ClaimedRow[]> {
  const { count } = claim;
  const claimed: ClaimedRow[] = [];
  let refused = 0;
  while (claimed.length < count && refused < MOST_REFUSED) {
    const next = await session.claims.claim({ ...claim, count: count - claimed.length });
    const kept = await acceptAll(session, next, claim);
    claimed.push(...kept);
    if (kept.length === next.length) break;
    refused += next.length - kept.length;
  }
  // A refused job had a place in its group. The group's next job therefore came only after jobs without a group.
  return refused === 0 ? claimed : claimed.toSorted(compareTurns);
}

/** Whether a claimed job can run at once, without anything to read or write first. */
export function isAccepted(job: JobRow, { selection }: QueueClaim): boolean {
  return selection.isWanted(job.name) && judge(job, selection).kind === 'run';
}

/**
 * Checks jobs that were claimed before: returns those to run; the others end or are released. Call it in a transaction.
 */
export async function acceptClaimed(
  session: StoreSession,
  jobs: readonly ClaimedRow[],
  claim: QueueClaim,
): Promise<ClaimedRow[]> {
  const rows = await session.claims.held(jobs.map(refOf));
  const tokens = new Set(rows.map(({ claim_token }) => claim_token));
  const held = jobs.filter(({ claim_token }) => tokens.has(claim_token));
  const isWanted = ({ name }: ClaimedRow): boolean => claim.selection.isWanted(name);
  const unwanted = held.filter((job) => !isWanted(job));
  if (unwanted.length > 0) await releaseClaims(session, unwanted.map(refOf), claim.at);
  return await acceptAll(session, held.filter(isWanted), claim);
}

const refOf = ({ id, claim_token }: ClaimedRow): ClaimRef => ({ id, token: claim_token });

async function acceptAll(session: StoreSession, jobs: readonly ClaimedRow[], claim: QueueClaim): Promise<ClaimedRow[]> {
  const accepted: ClaimedRow[] = [];
  let parents: Map<number, JobHead> | null = null;
  for (const job of jobs) {
    parents ??= await parentsOf(session, jobs);
    const taken = await accept(session, job, parents.get(job.parent_id ?? 0), claim);
    if (taken !== null) accepted.push(taken);
    // The job's family may have changed with it.
    else parents = null;
  }
  return accepted;
}

async function parentsOf(session: StoreSession, jobs: readonly ClaimedRow[]): Promise<Map<number, JobHead>> {
  const ids = new Set(jobs.flatMap(({ parent_id }) => parent_id ?? []));
  const rows = ids.size === 0 ? [] : await session.jobs.byId([...ids]);
  return new Map(rows.map((row) => [row.id, row]));
}

/** More tries than are possible: plain SQL has written the row. */
const MOST_ATTEMPTS = 1_000_000_000;

/** The decision about a claimed job, or what must be looked up first. */
type Verdict = ReturnType<typeof judgeChild> | { readonly kind: 'ask-parent' | 'adopt-rule' };

/** Judges by the row alone, in its state before the claim counted as a try. */
function judge(job: JobRow, selection: QueueSelection): Verdict {
  const { name, attempts, parent_id, repeat, scheduled_for } = job;
  if (selection.failsFast(name)) return { kind: 'fail', reason: 'jobs of its name are set to fail at once' };
  if (attempts >= MOST_ATTEMPTS) {
    return { kind: 'fail', reason: 'its row counts a billion tries or more, which cannot be true' };
  }
  const reason = describeWrong(job);
  if (reason !== null) return { kind: 'fail', reason };
  if (parent_id !== null) return { kind: 'ask-parent' };
  return { kind: repeat !== null && scheduled_for === null ? 'adopt-rule' : 'run' };
}

/** A value that plain SQL has written and that every other way to add a job refuses; null: none. */
function describeWrong({ retry, unique_key, concurrency_key, run_at, created_at, data }: JobRow): string | null {
  if (!readRetry(retry ?? '').isValid) {
    return `its retry must be retries and their delay such as 3 or "3 5m", found ${describeFound(retry)}`;
  }
  if (unique_key !== null && !isKey(unique_key))
    return `its unique_key must be ${KEY}, found ${describeFound(unique_key)}`;
  if (concurrency_key !== null && !isKey(concurrency_key)) {
    return `its concurrency_key must be ${KEY}, found ${describeFound(concurrency_key)}`;
  }
  return describeWrongData(data) ?? describeSeconds(run_at, created_at);
}

function describeWrongData(data: string): string | null {
  const excess = describeExcess(data);
  if (excess !== null) return `its data must be ${excess}`;
  return isJson(data) ? null : `its data must be JSON, found ${describeFound(data)}`;
}

/** A table of MySQL and MariaDB accepts any text. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function describeSeconds(run_at: number, created_at: number): string | null {
  if (!areSeconds(run_at) || areSeconds(created_at)) return null;
  return `its run_at must be milliseconds since 1970 such as ${run_at * 1000}, not seconds, found ${run_at}`;
}

function areSeconds(instant: number): boolean {
  return instant > 0 && instant < LEAST_MS;
}

/** Returns the claimed job as it is to run; null: none of its tries may begin now. */
async function accept(
  session: StoreSession,
  job: ClaimedRow,
  parent: JobHead | undefined,
  claim: QueueClaim,
): Promise<ClaimedRow | null> {
  const before = claim.state === 'running' ? asBefore(job) : job;
  const own = judge(before, claim.selection);
  const verdict = own.kind === 'ask-parent' ? judgeChild(job, parent) : own;
  if ('reason' in verdict) {
    // The person who set its name to fail needs no alert.
    const isAskedFor = claim.selection.failsFast(job.name);
    return await end(session, before, { ...verdict, isAskedFor }, claim);
  }
  if (verdict.kind === 'wait') return await putBack(session, before, { state: 'paused' }, claim);
  return verdict.kind === 'adopt-rule' ? await adoptRule(session, job, before, claim) : job;
}

/** The job before its claim counted as a try. */
function asBefore(job: ClaimedRow): ClaimedRow {
  const attempts = job.attempts - 1;
  return { ...job, attempts, started_at: attempts === 0 ? null : job.started_at };
}

async function end(
  session: StoreSession,
  job: ClaimedRow,
  { kind, reason, isAskedFor = false }: Ending,
  { at, missedCap, unbegun }: QueueClaim,
): Promise<null> {
  const isMeant = kind === 'cancel' || isAskedFor;
  await endJobs(session, [{ job, transition: { kind }, at, reason, run: null, isMeant }], { missedCap });
  if (!isMeant) unbegun?.push({ job, reason });
  return null;
}

interface Ending {
  readonly kind: 'fail' | 'cancel';
  readonly reason: string;
  readonly isAskedFor?: boolean;
}

async function putBack(
  session: StoreSession,
  { id, attempts, started_at }: ClaimedRow,
  columns: Partial<JobRow>,
  { at }: QueueClaim,
): Promise<null> {
  await session.jobs.change([{ id, set: { ...unclaimed, attempts, started_at, ...columns } }], at);
  return null;
}

/** A rule counts from the time that it gave; a job added by plain SQL has no such time yet. */
async function adoptRule(
  session: StoreSession,
  job: ClaimedRow,
  before: ClaimedRow,
  claim: QueueClaim,
): Promise<ClaimedRow | null> {
  const text = (job.repeat as string).trim();
  // An empty rule means none, as for jobs added in any other way.
  const { parseRepeat } = await import('../../schedule/repeat/grammar/parse.ts');
  const parsed = text === '' ? null : parseRepeat(text);
  if (parsed !== null && 'problem' in parsed) {
    return await end(session, before, { kind: 'fail', reason: parsed.problem }, claim);
  }
  const firstAt = parsed === null ? null : await initialTime(parsed.rule, job.created_at);
  const isUntimed = job.run_at === job.created_at;
  if (firstAt !== null && isUntimed && firstAt > claim.at) {
    return await putBack(session, before, { state: 'queued', run_at: firstAt, scheduled_for: firstAt }, claim);
  }
  const set = parsed === null ? { repeat: null } : { scheduled_for: isUntimed ? firstAt : job.run_at };
  await session.jobs.change([{ id: job.id, set }], claim.at);
  return { ...job, ...set };
}

/**
 * Records that a claimed job has begun, so that others see it. Repeated calls record it once.
 *
 * @returns the number of the run's row; null: the claim was lost meanwhile
 */
export async function beginRun(session: StoreSession, claim: ClaimRef, run: LastingRun): Promise<number | null> {
  const [job] = await session.claims.held([claim]);
  if (job === undefined) return null;
  const known = job.state === 'running' ? await session.runs.ofClaim(claim) : null;
  if (known !== null) return known;
  const { startedAt: started_at, attempt: attempts } = run;
  const set = { state: 'running' as const, started_at, attempts, reason: null };
  await session.jobs.change([{ id: claim.id, set }], started_at);
  const [id] = await session.runs.start([run]);
  return id ?? null;
}

/**
 * Gives back claimed jobs that have not begun. A child can be claimed only while its parent waits for it, and the
 * parent may have been cancelled meanwhile. Call it in a transaction.
 */
export async function releaseClaims(session: StoreSession, claims: readonly ClaimRef[], at: number): Promise<void> {
  const ids = claims.map(({ id }) => id);
  await session.jobs.lock(ids);
  await session.claims.release(claims, at);
  for (const job of await session.jobs.byId(ids)) {
    if (job.parent_id === null || !isWaiting(job.state)) continue;
    const state = await stateOfRetriedChild(session, job.parent_id);
    if (state === 'paused') await session.jobs.change([{ id: job.id, set: { state } }], at);
    if (state !== 'cancelled') continue;
    const reason = `its parent, job ${job.parent_id}, has ended`;
    const cancel = { job, transition: { kind: 'cancel' }, at, reason, run: null } as const;
    await endJobs(session, [cancel], { missedCap: 0 });
  }
}
