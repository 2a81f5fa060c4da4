import type { CrashedWorkerRow, RunningRow } from '../../store/contract/metrics.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { DOUBTFUL } from '../../store/words.ts';
import { printableName, shellWord } from '../../system/base/values.ts';
import { machineName } from '../../system/process/identity.ts';
import { defaults, SHORTEST_TOLD_MS } from './all-well.ts';
import { type CheckFacts, counted, type HealthCheck, longestUsualWaitMs, statusAbove, type Wrong } from './check.ts';
import { presentScripts } from './tiers.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** More need not be counted. */
const MOST_FAILURES = 1_000;

export const scriptFailing: HealthCheck = {
  code: 'script-failing',
  setting: 'scriptFailing',
  subject: 'scripts',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const scripts = await facts.scripts();
    const failed = scripts.filter(({ state }) => state === 'failed');
    const present = failed.length === 0 ? new Set<string>() : await presentScripts(facts);
    const wrong: Wrong[] = [];
    for (const name of new Set(failed.map((script) => script.name).filter((each) => present.has(each)))) {
      wrong.push(...(await judgeFailures(name, facts, threshold)));
    }
    return { wrong, ok: `${counted(scripts.length, 'script succeeded', 'scripts succeeded')} or will be tried again` };
  },
};

async function judgeFailures(script: string, facts: CheckFacts, threshold: number): Promise<Wrong[]> {
  const { count, since, reason } = await facts.log.failures(script, MOST_FAILURES);
  if (count < threshold) return [];
  const how = reason === null ? '' : `: ${printableName(reason)}`;
  const times = count === 1 ? '' : `${counted(count, 'time', 'times')} in a row, since `;
  const name = printableName(script);
  return [
    {
      subject: script,
      status: 'critical',
      message: ({ lasting }) => `${name} failed ${times}${lasting(facts.nowMs - (since ?? facts.nowMs))} ago${how}`,
      hint: `Run \`npx folder-runner report ${shellWord(name)}\`, and \`npx folder-runner show\` with the number of its last run.`,
    },
  ];
}

/** Its settling notes what a run that succeeded has printed of a failure, and when that is over. */
export const scriptWarning: HealthCheck = {
  code: DOUBTFUL,
  setting: 'scriptWarning',
  subject: 'scripts',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const open = (await facts.store.incidents.current()).filter(({ code }) => code === DOUBTFUL);
    const present = open.length === 0 ? new Set<string>() : await presentScripts(facts);
    const wrong = open.filter(({ subject, occurrences }) => present.has(subject) && occurrences >= threshold);
    return { wrong: wrong.map((incident) => tellWarning(incident, facts)), ok: 'no script succeeded with a warning' };
  },
};

function tellWarning({ subject, occurrences, opened_at, message }: IncidentRow, { nowMs }: CheckFacts): Wrong {
  const name = printableName(subject);
  const times = occurrences === 1 ? '' : `${counted(occurrences, 'time')}, since `;
  const how = message === null ? '' : `: ${printableName(message)}`;
  return {
    subject,
    status: 'warning',
    message: ({ lasting }) => `${name} succeeded with a warning ${times}${lasting(nowMs - opened_at)} ago${how}`,
    hint: `Run \`npx folder-runner report ${shellWord(name)}\`; if nothing has failed, \`@fail-on false\` in the script ends it.`,
  };
}

/** A running script that is far over its usual time: of a finished one, its comparison tells. */
export const runUnusual: HealthCheck = {
  code: 'run-unusual',
  setting: 'runUnusual',
  subject: 'scripts',
  defaultThreshold: () => 3,
  run: async (facts, threshold) => {
    const running = await facts.running();
    const long = running.filter(({ startedAt }) => facts.nowMs - startedAt >= SHORTEST_TOLD_MS);
    const wrong = long.length === 0 ? [] : await judgeDurations(long, facts, threshold);
    return { wrong, ok: `${counted(running.length, 'run')} in progress, none far over its usual time` };
  },
};

async function judgeDurations(long: readonly RunningRow[], facts: CheckFacts, threshold: number): Promise<Wrong[]> {
  const { findSlowRuns } = await import('../usual/compare-runs.ts');
  const slow = await findSlowRuns(facts.store, facts.nowMs);
  const found = slow.filter(({ runId, runningMs, usualMs }) => {
    return runningMs >= threshold * usualMs && long.some(({ id }) => id === runId);
  });
  return found.map(({ script, runningMs, usualMs }) => {
    const name = printableName(script);
    return {
      subject: script,
      status: 'warning',
      message: ({ lasting, timesOf }) => {
        const usual =
          usualMs < 1000
            ? 'and usually takes less than a second'
            : `${timesOf(runningMs / usualMs)} its usual ${lasting(usualMs)}`;
        return `${name} has been running for ${lasting(runningMs)}, ${usual}`;
      },
      hint: `See \`npx folder-runner tail ${shellWord(name)}\` for its output; a \`@timeout\` ends a script that hangs.`,
    };
  });
}

/** What a worker has beyond a time limit before it is said not to end it. */
const LIMIT_GRACE_MS = 2 * MINUTE_MS;

export const workerStuck: HealthCheck = {
  code: 'worker-stuck',
  setting: 'workerStuck',
  subject: 'workers',
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
    message: ({ lasting }) =>
      `${printableName(script)} is ${lasting(overMs)} over its time limit, and its worker (pid ${pid}${there}) does not end it`,
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
  const { oldest, jobs } = await facts.due();
  if (oldest === null || facts.nowMs - oldest < (await longestUsualWaitMs(facts))) return null;
  return {
    subject: script,
    status: 'warning',
    message: ({ lasting }) =>
      `${printableName(script)} has kept its worker busy for ${lasting(lastsMs)}, ` +
      `while ${counted(jobs, 'job')} ${jobs === 1 ? 'waits' : 'wait'} for up to ${lasting(facts.nowMs - oldest)}`,
    hint:
      'Give the services that it calls a shorter time limit, or the handler a `@timeout`; let jobs that take ' +
      'long have a worker ' +
      "of their own: `npx folder-runner work 'video/*'`.",
  };
}

export const crashes: HealthCheck = {
  code: 'crashes',
  setting: 'crashes',
  subject: 'workers',
  defaultThreshold: () => defaults.crashes,
  run: async (facts, threshold) => {
    const crashed = await facts.log.crashed(facts.nowMs - DAY_MS);
    const byTier = Map.groupBy(crashed, ({ tier }) => tier ?? 'queue');
    return {
      wrong: [...byTier].flatMap(([subject, workers]) => judgeCrashes(subject, workers, threshold, facts)),
      ok: `${counted(crashed.length, 'worker')} died within the last day`,
      figures: [{ label: 'crashes', value: crashed.length, unit: '', warning: threshold, critical: 3 * threshold }],
    };
  },
};

function judgeCrashes(
  subject: string,
  workers: readonly CrashedWorkerRow[],
  threshold: number,
  { nowMs }: CheckFacts,
): Wrong[] {
  const [last] = workers;
  if (last === undefined || workers.length < threshold) return [];
  const what = subject === 'queue' ? counted(workers.length, 'worker') : counted(workers.length, 'pass', 'passes');
  const how = last.reason === null ? '' : `: ${printableName(last.reason)}`;
  return [
    {
      subject,
      status: statusAbove(workers.length, 3 * threshold),
      message: ({ lasting }) =>
        `${subject}: ${what} died within the last day, the last one ${lasting(nowMs - last.finishedAt)} ago${how}`,
      hint:
        'Ask the host whether it ends processes for memory, CPU time or their number; ' +
        '`limits` in the settings start fewer, and `npx folder-runner activity` tells when it happened.',
    },
  ];
}
