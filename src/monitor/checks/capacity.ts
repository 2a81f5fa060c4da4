import type { CheckFacts, HealthCheck } from './check.ts';

const HOUR_MS = 3_600_000;

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
