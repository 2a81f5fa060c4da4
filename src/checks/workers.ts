import { warning } from '../monitor/finding.ts';
import type { CrashedWorkerRow, RunningRow } from '../store/statements/monitor/checks.ts';
import { countOf, formatSpan } from '../system/base/format.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, printableName } from '../system/base/values.ts';
import { machineName } from '../system/process/identity.ts';
import { type CheckFacts, type HealthCheck, longestUsualWaitMs, statusAbove, type Wrong } from './check.ts';

/** Time that a worker has beyond a time limit before it counts as stuck. */
const LIMIT_GRACE_MS = 2 * MINUTE_MS;

const workerStuck: HealthCheck = {
  code: 'worker-stuck',
  where: 'workers',
  defaultThreshold: () => HOUR_MS,
  run: async (facts, threshold) => {
    const running = await facts.running();
    const wrong: Wrong[] = [];
    for (const run of running) {
      const found = judgeLimit(run, facts) ?? (await judgeBusy(run, facts, threshold));
      if (found !== null) wrong.push(found);
    }
    return { wrong, ok: 'no worker is stuck' };
  },
};

/** Its worker would have ended it: that one stands still, or its script cannot be killed. */
function judgeLimit({ script, startedAt, timeoutMs, pid, host }: RunningRow, { nowMs }: CheckFacts): Wrong | null {
  const overMs = nowMs - startedAt - (timeoutMs ?? Number.POSITIVE_INFINITY);
  if (overMs < LIMIT_GRACE_MS) return null;
  const there = host === machineName() ? '' : ` on ${host}`;
  return {
    subject: script,
    status: 'critical',
    message: `${printableName(script)} is ${formatSpan(overMs)} over its time limit, and its worker (pid ${pid}${there}) does not end it`,
    hint: `End the worker with \`kill -9 ${pid}\`${there}; the next pass cleans up after it.`,
  };
}

/** One long job, while others wait longer than they should. */
async function judgeBusy(
  { script, startedAt }: RunningRow,
  facts: CheckFacts,
  threshold: number,
): Promise<Wrong | null> {
  const lastsMs = facts.nowMs - startedAt;
  if (!script.startsWith('queue/') || lastsMs < threshold) return null;
  const { waitsMs, jobs } = await facts.due();
  if (waitsMs < (await longestUsualWaitMs(facts))) return null;
  return {
    subject: script,
    status: 'warning',
    message:
      `${printableName(script)} has kept its worker busy for ${formatSpan(lastsMs)}, ` +
      `while ${countOf(jobs, 'job')} ${jobs === 1 ? 'waits' : 'wait'} for up to ${formatSpan(waitsMs)}`,
    hint:
      'Give the services that it calls a shorter time limit, or the handler a `@timeout`; let jobs that take ' +
      'long have a worker ' +
      "of their own: `npx folder-runner work 'video/*'`.",
  };
}

const QUEUE = 'queue';

const crashes: HealthCheck = {
  code: 'crashes',
  where: 'workers',
  defaultThreshold: () => 3,
  run: async (facts, threshold) => {
    const crashed = (await facts.present()).crashed ? await facts.log.crashed(facts.nowMs - DAY_MS) : [];
    const wrong: Wrong[] = [];
    for (const [subject, workers] of Map.groupBy(crashed, ({ tier }) => tier ?? QUEUE)) {
      if (workers.length < threshold) continue;
      const isGone = subject !== QUEUE && (await (await facts.presence()).whyTierIsGone(subject)) !== null;
      if (!isGone) wrong.push(describeCrashes(subject, workers, threshold, facts));
    }
    return {
      wrong,
      ok: `${countOf(crashed.length, 'worker')} died within the last day`,
      figures: [{ label: 'crashes', value: crashed.length, unit: '', warning: threshold, critical: 3 * threshold }],
    };
  },
};

function describeCrashes(
  subject: string,
  workers: readonly CrashedWorkerRow[],
  threshold: number,
  { nowMs }: CheckFacts,
): Wrong {
  const { reason, finishedAt } = workers[0] as CrashedWorkerRow;
  const what = subject === QUEUE ? countOf(workers.length, 'worker') : countOf(workers.length, 'pass', 'passes');
  const how = reason === null ? '' : `: ${printableName(reason)}`;
  return {
    subject,
    status: statusAbove(workers.length, 3 * threshold),
    message: `${subject}: ${what} died within the last day, the last one ${formatSpan(nowMs - finishedAt)} ago${how}`,
    hint:
      'Ask the host whether it ends processes for memory, CPU time or their number; ' +
      '`limits` in the settings start fewer, and `npx folder-runner activity` tells when it happened.',
  };
}

const TWO_OPTIONS =
  'There are two options: run workers more frequently (a crontab line more, a shorter period), or let more of them ' +
  'run at the same time (`workers.max`). Either lowers the utilization and leaves room for busy times.';

/** Against a target that somebody has set: what is much for one site is little for another. */
const utilization: HealthCheck = {
  code: 'utilization',
  where: 'queue',
  defaultThreshold: () => null,
  run: async (facts, threshold) => {
    const { workers } = await readLastHour(facts);
    const busy = workers[0]?.total.utilization ?? null;
    const figures = figuresOf('utilization', busy === null ? null : Math.round(busy * 100) / 100, '', threshold);
    const ok = 'the workers of the queue have time left';
    if (busy === null || busy < threshold) return { ok, figures };
    const percent = (share: number): string => `${Math.round(share * 100)}%`;
    const message =
      `in the last full hour the workers of the queue were busy for ${percent(busy)} of their time ` +
      `(the target is ${percent(threshold)})`;
    return { ok, wrong: [warning(message, TWO_OPTIONS)], figures };
  },
};

const serviceTime: HealthCheck = {
  code: 'service-time',
  where: 'queue',
  defaultThreshold: () => null,
  run: async (facts, threshold) => {
    const { series } = await readLastHour(facts);
    const meanMs = series[0]?.total.serviceMs.mean ?? null;
    const seconds = (ms: number): number => Math.round(ms / 100) / 10;
    const figures = figuresOf('service_time', meanMs === null ? null : seconds(meanMs), 's', seconds(threshold));
    const ok = 'jobs end soon enough';
    if (meanMs === null || meanMs < threshold) return { ok, figures };
    const message =
      `jobs that ended in the last full hour took ${formatSpan(meanMs)} on average since they were added ` +
      `(the target is ${formatSpan(threshold)})`;
    return { ok, wrong: [warning(message, `Jobs are not processed fast enough. ${TWO_OPTIONS}`)], figures };
  },
};

function figuresOf(label: string, value: number | null, unit: '' | 's', warning: number) {
  return value === null ? [] : [{ label, value, unit, warning, critical: null }];
}

/** As `runner metrics queue` tells it. */
async function readLastHour({ store, nowMs }: CheckFacts) {
  const { readMetrics } = await import('../monitor/metrics/read-metrics.ts');
  const untilMs = nowMs - (nowMs % HOUR_MS);
  const span = { sinceMs: untilMs - HOUR_MS, untilMs };
  return await readMetrics(store, { ...span, period: '1h', nowMs, subjects: ['queue'] });
}

export const workerChecks: readonly HealthCheck[] = [workerStuck, crashes, utilization, serviceTime];
