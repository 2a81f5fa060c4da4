import { critical, found, warning } from '../monitor/finding.ts';
import { countOf, formatSpan } from '../system/base/format.ts';
import { HOUR_MS, printableName } from '../system/base/values.ts';
import { checkLiveness } from '../system/process/identity.ts';
import { type CheckFacts, type CheckResult, type HealthCheck, longestUsualWaitMs, statusAbove } from './check.ts';

/** More need not be counted: that many are far too many. */
const MOST_FAILED = 10_000;

const jobsFailing: HealthCheck = {
  code: 'jobs-failing',
  where: 'queue',
  defaultThreshold: () => 10,
  run: async ({ log, nowMs, present }, threshold) => {
    const since = nowMs - HOUR_MS;
    const failed = (await present()).failed ? await log.ended('failed', since, MOST_FAILED) : 0;
    const ok = `${countOf(failed, 'job')} failed within the last hour`;
    const figures = [{ label: 'jobs_failed', value: failed, unit: '', warning: threshold, critical: null }] as const;
    if (failed < threshold) return { ok, figures };
    // Whether as many finished: counting all would take its time.
    const finished = await log.ended('finished', since, failed + 1);
    const hint =
      'See `npx folder-runner jobs --state failed`: new code may have broken something, or a service that the jobs need fails; ' +
      '`npx folder-runner kick` queues them again.';
    const isMost = finished <= failed;
    return {
      wrong: [
        isMost
          ? critical(`${ok}, and ${finished === 0 ? 'none' : `only ${finished}`} finished`, hint)
          : warning(ok, hint),
      ],
      ok,
      figures,
    };
  },
};

const CAPACITY_HINT =
  'See `npx folder-runner status`. If the workers finish job after job, run more of them or call them more often (`workers.max`, ' +
  '`npx folder-runner work` in the crontab). If one job takes too long, look into that one; let jobs that take long have a worker ' +
  'of their own.';

const jobsWaiting: HealthCheck = {
  code: 'jobs-waiting',
  where: 'queue',
  defaultThreshold: () => 1_000,
  run: async (facts, threshold) => {
    const { jobs, isCut, names } = await facts.due();
    const critical = 10 * threshold;
    const ok = describeDue(jobs, isCut);
    const figures = [{ label: 'jobs_due', value: jobs, unit: '', warning: threshold, critical }] as const;
    if (jobs < threshold && !isCut) return { ok, figures };
    const most = names[0] === undefined ? '' : `, most of them ${printableName(names[0].name)} (${names[0].jobs})`;
    const status = isCut ? 'critical' : statusAbove(jobs, critical);
    return { wrong: [found(status, ok + most, CAPACITY_HINT)], ok, figures };
  },
};

function describeDue(jobs: number, isCut: boolean): string {
  if (jobs === 0) return 'no job is due';
  return `${isCut ? 'more than ' : ''}${countOf(jobs, 'job is', 'jobs are')} due`;
}

const jobsLate: HealthCheck = {
  code: 'jobs-late',
  where: 'queue',
  defaultThreshold: longestUsualWaitMs,
  run: async (facts, threshold) => {
    const { oldest, waitsMs } = await facts.due();
    const seconds = (ms: number): number => Math.round(ms / 1000);
    const result: CheckResult = {
      ok: oldest === null ? 'no job waits' : 'no job has waited too long',
      figures: [
        {
          ...{ label: 'oldest_job', value: seconds(waitsMs), unit: 's' },
          ...{ warning: seconds(threshold), critical: seconds(4 * threshold) },
        },
      ],
    };
    if (oldest === null || waitsMs < threshold) return result;
    const message = `the oldest job that is due has waited for ${formatSpan(waitsMs)} (${printableName(oldest.name)})`;
    const hint = `${CAPACITY_HINT} \`npx folder-runner status\` also names jobs without a handler.`;
    return { ...result, wrong: [found(statusAbove(waitsMs, 4 * threshold), message, hint)] };
  },
};

/** Jobs pile up, and nobody processes them. */
const noWorker: HealthCheck = {
  code: 'no-worker',
  where: 'queue',
  defaultThreshold: longestUsualWaitMs,
  run: async (facts, threshold) => {
    const { jobs, waitsMs } = await facts.due();
    if (waitsMs < threshold) return { ok: 'no job waits for a worker' };
    const last = await facts.log.lastQueueWork();
    const ok = 'somebody processes the queue';
    if ((last !== null && facts.nowMs - last < threshold) || (await isProcessed(facts))) return { ok };
    const message =
      `${countOf(jobs, 'job waits', 'jobs wait')} for up to ${formatSpan(waitsMs)} to be processed; ` +
      (last === null ? 'nobody ever has' : `nobody has for ${formatSpan(facts.nowMs - last)}`);
    const hint =
      'Any tier in the crontab processes the queue, too, and so does a line with `npx folder-runner work`; ' +
      '`npx folder-runner doctor` tries them.';
    return { ok, wrong: [critical(message, hint)] };
  },
};

/** By a worker, by who claims jobs without being one, or who waits for some. */
async function isProcessed({ log, states, nowMs }: CheckFacts): Promise<boolean> {
  const { listWaiters } = await import('../queue/claim/waiters.ts');
  if (states.some((state) => listWaiters(state, nowMs).length > 0) || (await log.isClaimedOutside())) return true;
  return (await log.queueWorkers()).some((worker) => checkLiveness(worker) !== 'dead');
}

export const queueChecks: readonly HealthCheck[] = [jobsFailing, jobsWaiting, jobsLate, noWorker];
