import { printableName } from '../../system/base/values.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import { defaults } from './all-well.ts';
import {
  type CheckFacts,
  type CheckResult,
  counted,
  type HealthCheck,
  longestUsualWaitMs,
  statusAbove,
  type Wrong,
} from './check.ts';

const HOUR_MS = 3_600_000;

/** More need not be counted: that many are far too many. */
const MOST_FAILED = 10_000;

export const jobsFailing: HealthCheck = {
  code: 'jobs-failing',
  setting: 'jobsFailing',
  subject: 'queue',
  defaultThreshold: () => defaults.jobsFailing,
  run: async ({ log, nowMs }, threshold) => {
    const since = nowMs - HOUR_MS;
    const failed = await log.ended('failed', since, MOST_FAILED);
    const ok = `${counted(failed, 'job')} failed within the last hour`;
    const figures = [{ label: 'jobs_failed', value: failed, unit: '', warning: threshold, critical: null }] as const;
    if (failed < threshold) return { wrong: [], ok, figures };
    // Whether as many finished: counting all would take its time.
    const finished = await log.ended('finished', since, failed + 1);
    const isMost = finished <= failed;
    const message = () => (isMost ? `${ok}, and only ${finished} finished` : ok);
    const hint =
      'See `npx folder-runner jobs --state failed`: new code may have broken something, or a service that the jobs need fails; ' +
      '`npx folder-runner kick` queues them again.';
    return { wrong: [{ subject: 'queue', status: isMost ? 'critical' : 'warning', message, hint }], ok, figures };
  },
};

const CAPACITY_HINT =
  'See `npx folder-runner status`. If the workers finish job after job, run more of them or call them more often (`workers.max`, ' +
  '`npx folder-runner work` in the crontab). If one job takes too long, look into that one; let jobs that take long have a worker ' +
  'of their own.';

export const jobsWaiting: HealthCheck = {
  code: 'jobs-waiting',
  setting: 'jobsWaiting',
  subject: 'queue',
  defaultThreshold: () => 1_000,
  run: async (facts, threshold) => {
    const { jobs, isCut, names } = await facts.due();
    const critical = 10 * threshold;
    const ok = describeDue(jobs, isCut);
    const figures = [{ label: 'jobs_due', value: jobs, unit: '', warning: threshold, critical }] as const;
    if (jobs < threshold && !isCut) return { wrong: [], ok, figures };
    const most = names[0] === undefined ? '' : `, most of them ${printableName(names[0].name)} (${names[0].jobs})`;
    const status = isCut ? 'critical' : statusAbove(jobs, critical);
    return { wrong: [{ subject: 'queue', status, message: () => ok + most, hint: CAPACITY_HINT }], ok, figures };
  },
};

function describeDue(jobs: number, isCut: boolean): string {
  if (jobs === 0) return 'no job is due';
  return `${isCut ? 'more than ' : ''}${counted(jobs, 'job is', 'jobs are')} due`;
}

export const jobsLate: HealthCheck = {
  code: 'jobs-late',
  setting: 'jobsLate',
  subject: 'queue',
  defaultThreshold: longestUsualWaitMs,
  run: async (facts, threshold) => {
    const { oldest, oldestName } = await facts.due();
    const waitsMs = oldest === null ? 0 : facts.nowMs - oldest;
    const seconds = (ms: number): number => Math.round(ms / 1000);
    const result: CheckResult = {
      wrong: [],
      ok: oldest === null ? 'no job waits' : 'no job has waited too long',
      figures: [
        {
          ...{ label: 'oldest_job', value: seconds(waitsMs), unit: 's' },
          ...{ warning: seconds(threshold), critical: seconds(4 * threshold) },
        },
      ],
    };
    if (oldestName === null || waitsMs < threshold) return result;
    const message: Wrong['message'] = ({ lasting }) =>
      `the oldest job that is due has waited for ${lasting(waitsMs)} (${printableName(oldestName)})`;
    const hint = `${CAPACITY_HINT} \`npx folder-runner status\` also names jobs without a handler.`;
    return { ...result, wrong: [{ subject: 'queue', status: statusAbove(waitsMs, 4 * threshold), message, hint }] };
  },
};

/** Jobs pile up, and nobody processes them. */
export const noWorker: HealthCheck = {
  code: 'no-worker',
  setting: 'noWorker',
  subject: 'queue',
  defaultThreshold: longestUsualWaitMs,
  run: async (facts, threshold) => {
    const { jobs, oldest } = await facts.due();
    const waitsMs = oldest === null ? 0 : facts.nowMs - oldest;
    if (waitsMs < threshold) return { wrong: [], ok: 'no job waits for a worker' };
    const last = await facts.log.lastQueueWork();
    if ((last !== null && facts.nowMs - last < threshold) || (await isProcessed(facts))) {
      return { wrong: [], ok: 'somebody processes the queue' };
    }
    return {
      wrong: [
        {
          subject: 'queue',
          status: 'critical',
          message: ({ lasting }) =>
            `${counted(jobs, 'job waits', 'jobs wait')} for up to ${lasting(waitsMs)} to be processed; ` +
            (last === null ? 'nobody ever has' : `nobody has for ${lasting(facts.nowMs - last)}`),
          hint: 'Any tier in the crontab processes the queue, too, and so does a line with `npx folder-runner work`; `npx folder-runner doctor` tries them.',
        },
      ],
      ok: '',
    };
  },
};

/** By a worker, by who claims jobs without being one, or who waits for some. */
async function isProcessed({ log, states, nowMs }: CheckFacts): Promise<boolean> {
  const { listWaiters } = await import('../../queue/claim/waiters.ts');
  if (states.some((state) => listWaiters(state, nowMs).length > 0) || (await log.isClaimedOutside())) return true;
  return (await log.queueWorkers()).some((worker) => checkLiveness(worker) !== 'dead');
}

const TWO_OPTIONS =
  'There are two options: run workers more frequently (a crontab line more, a shorter period), or let more of them ' +
  'run at the same time (`workers.max`). Either lowers the utilization and leaves room for busy times.';

/** Against a target that somebody has set: what is much for one site is little for another. */
export const utilization: HealthCheck = {
  code: 'utilization',
  setting: 'utilization',
  subject: 'queue',
  defaultThreshold: () => null,
  run: async (facts, threshold) => {
    const { workers } = await readLastHour(facts);
    const found = workers[0]?.total.utilization ?? null;
    const figures = figuresOf('utilization', found === null ? null : Math.round(found * 100) / 100, '', threshold);
    if (found === null || found < threshold) {
      return { wrong: [], ok: 'the workers of the queue have time left', figures };
    }
    const percent = (share: number): string => `${Math.round(share * 100)}%`;
    const message = () =>
      `in the last full hour the workers of the queue were busy for ${percent(found)} of their time ` +
      `(the target is ${percent(threshold)})`;
    return { wrong: [{ subject: 'queue', status: 'warning', message, hint: TWO_OPTIONS }], ok: '', figures };
  },
};

export const serviceTime: HealthCheck = {
  code: 'service-time',
  setting: 'serviceTime',
  subject: 'queue',
  defaultThreshold: () => null,
  run: async (facts, threshold) => {
    const { series } = await readLastHour(facts);
    const meanMs = series[0]?.total.serviceMs.mean ?? null;
    const seconds = (ms: number): number => Math.round(ms / 100) / 10;
    const figures = figuresOf('service_time', meanMs === null ? null : seconds(meanMs), 's', seconds(threshold));
    if (meanMs === null || meanMs < threshold) return { wrong: [], ok: 'jobs end soon enough', figures };
    return {
      wrong: [
        {
          subject: 'queue',
          status: 'warning',
          message: ({ lasting }) =>
            `jobs that ended in the last full hour took ${lasting(meanMs)} on average since they were added ` +
            `(the target is ${lasting(threshold)})`,
          hint: `Jobs are not processed fast enough. ${TWO_OPTIONS}`,
        },
      ],
      ok: '',
      figures,
    };
  },
};

function figuresOf(label: string, value: number | null, unit: '' | 's', warning: number) {
  return value === null ? [] : [{ label, value, unit, warning, critical: null }];
}

/** As `runner metrics queue` tells it. */
async function readLastHour({ store, nowMs }: CheckFacts) {
  const { readMetrics } = await import('../metrics/read-metrics.ts');
  const untilMs = nowMs - (nowMs % HOUR_MS);
  const span = { sinceMs: untilMs - HOUR_MS, untilMs };
  return await readMetrics(store, { ...span, period: '1h', nowMs, subjects: ['queue'] });
}
