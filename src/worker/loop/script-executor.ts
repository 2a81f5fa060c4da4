import { existsSync, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { hasOwnTimes, hasWindow } from '../../discovery/script.ts';
import type { KeptEnd } from '../../execution/result/result.ts';
import { hasRoomToHold, holdScript } from '../../execution/script/run-script.ts';
import { decideRetry, policyOf } from '../../queue/settle/retry-policy.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import { type CrontabTimes, dueByCrontab } from '../../schedule/crontab-times.ts';
import type { Store } from '../../store/store.ts';
import { clockOffsetMs, sleepUntil } from '../../system/base/clock.ts';
import { errorCode } from '../../system/base/errors.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows } from '../invocation/with-store.ts';
import { leaveRest } from '../pass/collect-jobs.ts';
import type { LinkedJobs } from '../pass/links.ts';
import { pruneLog } from '../pass/prune-log.ts';
import type { WorkerRequest } from '../recovery/tier-lock.ts';
import { createAdmission } from './limits.ts';
import { type Executor, runExecutors } from './loop.ts';
import { PassRecorder } from './pass-recorder.ts';
import type { EndedRun, PassJob } from './recorder.ts';
import { type JobTurn, runJob, type TierPass, toRequest } from './run-job.ts';
import { claimedRun, ScriptRecorder, type ScriptRun } from './script-recorder.ts';

interface WorkedOff {
  readonly ends: readonly KeptEnd[];
  /** Jobs that were not started, because the pass was stopped or has to wait for a better time. */
  readonly rest: readonly PassJob[];
}

/** Runs the jobs in order, up to the tier's concurrency at a time. */
export async function workOff(pass: WorkingPass, wanted: readonly PassJob[]): Promise<WorkedOff> {
  const jobs = await findDueTimes(pass, wanted);
  const { settings } = pass.runner;
  const concurrency = settings.tiers[pass.tier]?.concurrency ?? settings.concurrency;
  const count = Math.min(concurrency, jobs.length);
  // Several scripts at a time leave no processor to start another one ahead.
  const links = await openLinks(pass, jobs);
  // A process that is started ahead would begin before jobs that are freed meanwhile.
  const mayHold = count === 1 && jobs.length > 1 && pass.admit === null && links === null && hasRoomToHold();
  const claimed = jobs.flatMap((job) => claimedRun(job, pass.runner.state));
  const unclaimed = jobs.filter(({ claim, waits }) => claim === undefined && !waits);
  const shared: SharedPass = { ...pass, waiting: unclaimed, ends: [], mayHold, isInTurn: count === 1, links };
  const executors = Array.from({ length: count }, (_, index) => new ScriptExecutor(shared, index === 0 ? claimed : []));
  const errors = await runExecutors(executors, { ...pass, name: 'pass' });
  if (errors.length > 0) throw errors[0];
  const { ends } = shared;
  const { reason, cause } = pass.stop;
  // A job that only waits for others is left as it is, unless the pass is stopped before they could end.
  const waiting = [...shared.waiting, ...(reason === null ? [] : (links?.left ?? []))];
  const isLeft = waiting.length > 0 || ends.some(({ outcome }) => outcome === 'released');
  if (isLeft && reason !== null && cause === 'replaced') pass.events.emit('problem', reason);
  return { ends, rest: waiting };
}

/** Loads the code for links if a job waits for another one; null: none does. */
async function openLinks({ store }: WorkingPass, jobs: readonly PassJob[]): Promise<LinkedJobs | null> {
  const waiting = jobs.filter(({ waits }) => waits);
  if (waiting.length === 0) return null;
  const { LinkedJobs } = await import('../pass/links.ts');
  return new LinkedJobs(waiting, store ?? null);
}

/** Adds the due times: from a script's own schedule, or from the crontab line of its tier. */
async function findDueTimes(pass: WorkingPass, jobs: readonly PassJob[]): Promise<readonly PassJob[]> {
  const isByCron =
    pass.trigger !== 'manual' && pass.worker.kind !== 'script' && jobs.some(({ script }) => !hasOwnTimes(script));
  const crontab = isByCron ? await readCrontabOf(pass) : null;
  const aheadMs = clockOffsetMs();
  const dueAtOf = async ({ script, scheduledFor }: PassJob): Promise<number | null> => {
    if (hasOwnTimes(script)) return scheduledFor;
    if (crontab === null) return null;
    const slotMs = scheduledFor === null ? null : scheduledFor - aheadMs;
    const call = { isDue: pass.trigger === 'due', calledAtMs: pass.worker.startedAt - aheadMs, slotMs };
    const dueMs = await dueByCrontab(script.tier, call, crontab);
    return dueMs === null ? null : dueMs + aheadMs;
  };
  const opensAt = async (job: PassJob): Promise<number | null> => {
    const dueMs = await dueAtOf(job);
    if (dueMs === null || !hasWindow(job.script)) return dueMs;
    const { openingAt } = await import('../../schedule/script-times.ts');
    return await openingAt(job.script.options, dueMs);
  };
  return await Promise.all(jobs.map(async (job) => ({ ...job, dueAt: await opensAt(job) })));
}

/**
 * Scripts run even if their due time is unknown: the package may be gone, and with it the code that reads the crontab.
 */
async function readCrontabOf({ crontab }: WorkingPass): Promise<CrontabTimes | null> {
  try {
    return (await crontab?.()) ?? null;
  } catch {
    return null;
  }
}

/** A pass and its way of working. */
interface WorkingPass extends TierPass {
  /** Absent: it runs without the log. */
  readonly store?: Store;
  readonly worker: Pick<WorkerRequest, 'kind' | 'startedAt'>;
  /** The ids of jobs that nobody has claimed, if other machines have the tier, too; null: unknown. */
  readonly findFree?: () => Promise<ReadonlySet<number | null> | null>;
  /** Called when the commit of the last run has finished the worker, too. Left out: its last run never does that. */
  readonly onFinished?: () => void;
}

interface SharedPass extends WorkingPass {
  readonly waiting: PassJob[];
  readonly ends: KeptEnd[];
  readonly mayHold: boolean;
  /** Whether its jobs run one after the other. */
  readonly isInTurn: boolean;
  /** The jobs that wait for others of the pass; null: none does. */
  readonly links: LinkedJobs | null;
}

/** Longest usual duration of a run before a held process, in milliseconds: that process must not wait long. */
const LONGEST_BEFORE_HELD_MS = 5_000;

/**
 * Runs one job after the other. If nothing can prevent the next job, it is claimed in the commit that settles the one
 * before. While that one runs, the next process is started, and held until its turn.
 */
class ScriptExecutor implements Executor<JobTurn> {
  readonly #pass: SharedPass;
  /** Claimed, but not begun. */
  readonly #claimed: ScriptRun[];
  /** The turn whose process is started or starting. */
  #held: Promise<JobTurn | null> | null = null;

  /** Reports the end of its turn to those who wait for it. */
  #onEnded: (() => void) | null = null;

  constructor(pass: SharedPass, claimed: readonly ScriptRun[]) {
    this.#pass = pass;
    this.#claimed = [...claimed];
  }

  /** While nothing may start, jobs that run may free others. */
  async next(): Promise<JobTurn | null> {
    const { links, stop } = this.#pass;
    if (links === null) return await this.#next();
    let turn = await this.#nextLinked(links);
    while (turn === null && stop.reason === null && (await links.untilEnd())) turn = await this.#nextLinked(links);
    return turn;
  }

  /** A job counts as running while it is still being claimed, so that other executors wait for its end. */
  async #nextLinked(links: LinkedJobs): Promise<JobTurn | null> {
    const onEnded = links.begin();
    let turn: JobTurn | null = null;
    try {
      turn = await this.#next();
    } finally {
      if (turn === null) onEnded(false);
      else this.#onEnded = onEnded;
    }
    return turn;
  }

  async #next(): Promise<JobTurn | null> {
    let turn = await this.#findNext();
    for (; turn !== null && isGone(this.#pass, turn.run.script); turn = await this.#findNext())
      await this.#leaveOut(turn);
    // It may have been claimed long ago, so another machine may have it by now.
    if (turn === null || this.#pass.heartbeat?.mayStart() !== false) return turn;
    if (turn.held === null) this.#claimed.unshift(turn.run);
    else this.#held = Promise.resolve(turn);
    return null;
  }

  /** Leaves out a job whose file an earlier script of the pass has removed, renamed or moved. */
  async #leaveOut({ run, held }: JobTurn): Promise<void> {
    await held?.drop();
    await this.#pass.recorder.cancel(run, FILE_GONE);
    this.#pass.events.emit('warning', `${run.name} is not run: ${FILE_GONE}`);
  }

  async #findNext(): Promise<JobTurn | null> {
    const { stop } = this.#pass;
    if (stop.reason !== null) return null;
    const held = await this.#held;
    this.#held = null;
    if (held !== null) return held;
    const run = this.#claimed.shift() ?? (await this.#claimNext());
    if (run === null) return null;
    return { run, history: await this.#pass.recorder.readHistory(run), held: null };
  }

  async #claimNext(): Promise<ScriptRun | null> {
    const { recorder } = this.#pass;
    for (let job = await this.#admitNext(); job !== null; job = await this.#admitNext()) {
      const { next } = await recorder.turn([], job);
      if (next[0] !== undefined) return next[0];
      await this.#leaveTaken();
    }
    return null;
  }

  /** Another machine was faster: do not race it for each of the other jobs. */
  async #leaveTaken(): Promise<void> {
    const free = await this.#pass.findFree?.();
    if (free == null) return;
    const left = this.#pass.waiting.filter(({ id }) => free.has(id));
    const first = Math.floor(Math.random() * left.length);
    this.#pass.waiting.splice(0, Number.POSITIVE_INFINITY, ...left.slice(first), ...left.slice(0, first));
  }

  /** Takes the job out before it asks for admission, so that no two executors wait for the same job. */
  async #admitNext(): Promise<PassJob | null> {
    const { stop, admit } = this.#pass;
    const job = stop.reason === null ? this.#pass.waiting.shift() : undefined;
    if (job === undefined) return null;
    if (job.notBefore !== undefined) await sleepUntil(stop.noMore, job.notBefore - this.#pass.runner.now());
    const reason = (await admit?.(job.script)) ?? null;
    if (reason !== null) stop.startNothing(reason);
    if (stop.reason === null) return (await this.#isShut(job)) ? await this.#admitNext() : job;
    this.#pass.waiting.unshift(job);
    return null;
  }

  /** Whether the window of a job has shut since its pass began. It stays queued until its window opens again. */
  async #isShut({ script }: PassJob): Promise<boolean> {
    const { worker, runner, events } = this.#pass;
    if (!hasWindow(script) || worker.kind === 'script') return false;
    const { describeTimeHold, findTimeHold } = await import('../../queue/links.ts');
    const hold = await findTimeHold(script, runner.now() - clockOffsetMs());
    if (hold !== null) events.emit('deferred', `${script.name} ${describeTimeHold(hold, script.options)}`);
    return hold !== null;
  }

  async run(turn: JobTurn): Promise<void> {
    const { ends, waiting } = this.#pass;
    const running = runJob(this.#pass, turn, {
      onStarted: () => this.#holdNext(turn),
      end: async (ended) => {
        const settled = await this.#end(ended);
        // Only this process knows the command.
        if (isExecName(turn.run.name)) waiting.push(...nextTryOf(ended, settled));
        return settled;
      },
    });
    const end = await running.finally(() => this.#onEnded?.());
    if (end !== null) ends.push({ outcome: end.outcome });
  }

  /** Starts the process of the next job while this one runs. */
  #holdNext(running: JobTurn): void {
    const job = this.#claimed[0]?.job ?? this.#pass.waiting[0];
    // This job's process may have been started a second time.
    if (this.#held !== null || !this.#isToBeHeld(job, running)) return;
    this.#held = this.#hold();
    // The turn itself meets the error.
    this.#held.catch(() => {});
  }

  async #hold(): Promise<JobTurn | null> {
    const run = this.#claimed.shift() ?? (await this.#claimNext());
    if (run === null) return null;
    const history = await this.#pass.recorder.readHistory(run);
    const request = toRequest(this.#pass, run, history, this.#pass.runner.now());
    return { run, history, held: await holdScript(request) };
  }

  #isToBeHeld(job: PassJob | undefined, { history }: JobTurn): boolean {
    if (job === undefined || !this.#pass.mayHold || this.#pass.stop.reason !== null) return false;
    const { launch, refusals } = job.script;
    const { lastDurationMs } = history;
    const isShort = lastDurationMs !== null && lastDurationMs <= LONGEST_BEFORE_HELD_MS;
    return isShort && launch.kind === 'node' && refusals.length === 0 && !hasWindow(job.script);
  }

  async #end(ended: EndedRun<ScriptRun>): Promise<Settled> {
    if (this.#pass.links?.isAwaited(ended.run.name)) return await this.#endAwaited(ended, this.#pass.links);
    const job = (await this.#isNextWanted()) ? this.#pass.waiting.shift() : undefined;
    const then = job ?? ((await this.#isLast()) ? 'finish' : null);
    const { settled, next, isFinished } = await this.#pass.recorder.turn([ended], then);
    this.#claimed.push(...next);
    if (isFinished) this.#pass.onFinished?.();
    return settled[0] as Settled;
  }

  /** The jobs that it frees come next. */
  async #endAwaited(ended: EndedRun<ScriptRun>, links: LinkedJobs): Promise<Settled> {
    const { recorder, waiting } = this.#pass;
    const { settled } = await recorder.turn([ended], null);
    const [own] = settled as [Settled];
    waiting.unshift(...(await links.free(ended, own, recorder)));
    return own;
  }

  /** Whether no job is left, and the worker's row needs no reason. */
  async #isLast(): Promise<boolean> {
    const { onFinished, isInTurn, waiting, stop } = this.#pass;
    if (onFinished === undefined || !isInTurn || waiting.length + this.#claimed.length > 0) return false;
    return (await this.#held?.catch(() => null)) == null && stop.reason === null;
  }

  /** Behind a job whose process is held already, claim only a job that will be held in turn. */
  async #isNextWanted(): Promise<boolean> {
    const { admit, stop } = this.#pass;
    const held = await this.#held?.catch(() => null);
    const [job] = this.#pass.waiting;
    // A script with a window is claimed only when it starts.
    if (admit !== null || stop.reason !== null || this.#claimed.length > 0 || (job && hasWindow(job.script)))
      return false;
    return held == null || this.#isToBeHeld(job, held);
  }

  async giveBack(): Promise<void> {
    const held = await this.#held?.catch(() => null);
    await held?.held?.drop();
    const unbegun = [...(held ? [held.run] : []), ...this.#claimed];
    if (unbegun.length > 0) await this.#pass.recorder.release(unbegun);
    this.#pass.waiting.unshift(...unbegun.map(({ job }) => job));
  }
}

/** Without the log, nobody but this pass counts the tries. Empty: there is none. */
function nextTryOf({ run, end, isRetryable }: EndedRun<ScriptRun>, { decision }: Settled): readonly PassJob[] {
  const { seen: _, claim: __, ...job } = run.job;
  const ended = { outcome: end.outcome, attempt: run.attempt, isRetryable, at: end.finishedAt };
  const next = decision ?? decideRetry(policyOf(run.script.options), ended);
  return next.state === 'retrying' ? [{ ...job, attempt: run.attempt + 1, notBefore: next.runAt }] : [];
}

const FILE_GONE = 'its file is gone';

/** Not if all of `jobs/` is gone, and not for a link whose target is gone: then the run itself reports it. */
function isGone({ runner }: Pick<SharedPass, 'runner'>, { path }: PassJob['script']): boolean {
  try {
    lstatSync(path);
    return false;
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(errorCode(error)) && existsSync(join(runner.root, 'jobs'));
  }
}

/** The work of a worker that has its tier. */
interface Work {
  readonly worker: WorkerRequest;
  readonly workerId: number;
  readonly jobs: readonly PassJob[];
}

/** The runs of a pass. */
export interface WorkedPass {
  readonly ends: readonly KeptEnd[];
  /** Whether the worker's row says already that it has finished. */
  readonly isFinished: boolean;
}

/**
 * Runs the jobs of a pass, then keeps the log within bounds. If the log is lost meanwhile, the spool records the rest.
 */
export async function workPass(call: StoreInvocation, work: Work): Promise<WorkedPass> {
  const { runner, stop, store } = call;
  const { worker, workerId, jobs } = work;
  // A person who starts a script by hand does not watch jobs that other passes have left.
  const isWatched = call.isWatched === true && worker.kind !== 'backlog';
  const log = new ScriptRecorder(
    { store, workerId, runner, heartbeat: call.heartbeat, isWatched },
    jobs.filter(({ claim }) => claim).length,
  );
  const recorder = new PassRecorder({ call, worker, isShared: store.fleet !== null }, log);
  const isExec = isExecName(worker.tier);
  const admit = isExec ? null : createAdmission(call, ({ name }) => askUsualDuration(store, name));
  const findFree = () => unlessLost(() => readFree(store, worker.tier));
  let isFinished = false;
  const onFinished = (): void => {
    isFinished = true;
  };
  // In a fleet the worker's signs of life end first; and after a failure another try may follow.
  const shared = store.fleet !== null ? { findFree } : isExec ? {} : { onFinished };
  const pass = { ...call, tier: worker.tier, worker, recorder, admit, ...shared };
  const { ends, rest } = await workOff(pass, jobs).finally(() => {
    if (recorder.isSpooled) call.spooledTiers.add(worker.tier);
    recorder.close();
  });
  await ifLogAllows(call, () => store.sync());
  if (rest.length > 0 && stop.reason !== null) call.events.emit('deferred', stop.reason);
  if (recorder.isSpooled) return { ends, isFinished };
  await ifLogAllows(call, async () => {
    await leaveRest(store, rest, { tier: worker.tier, workerId, at: runner.now(), stop, kind: worker.kind });
    await pruneLog(runner, store, workerId);
  });
  return { ends, isFinished };
}

async function readFree(store: Store, tier: string): Promise<ReadonlySet<number | null>> {
  const open = await store.scriptJobs.open(tier);
  return new Set(open.filter(({ claim_token }) => claim_token === null).map(({ id }) => id));
}

/** How long a script's last successful runs took, in milliseconds; null: it has none, or nobody knows. */
export function askUsualDuration({ statements }: Store, script: string): Promise<number | null> {
  return unlessLost(async () => {
    const { usualOf } = await import('../../store/statements/monitor/usual.ts');
    return (await usualOf(statements).figures(script)).durationMs;
  });
}

/** Null if the log can no longer be read. */
async function unlessLost<T>(ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch {
    return null;
  }
}
