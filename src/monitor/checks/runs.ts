import { tierPeriodMs } from '../../schedule/period.ts';
import type { IncidentRow } from '../../store/schema.ts';
import type { CrashedWorkerRow, RunningRow } from '../../store/statements/monitor/checks.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import { findUsual, RECENT_RUNS } from '../../store/statements/monitor/judge-run.ts';
import { usualOf } from '../../store/statements/monitor/usual.ts';
import { FAILING, SUSPECT } from '../../store/words.ts';
import { printableName, shellWord } from '../../system/base/values.ts';
import { machineName } from '../../system/process/identity.ts';
import { defaults, SHORTEST_TOLD_MS } from './all-well.ts';
import { type CheckFacts, counted, type HealthCheck, longestUsualWaitMs, statusAbove, type Wrong } from './check.ts';
import { withoutGone } from './tiers.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Its incidents tell: they are over once a run succeeds, somebody closes them, or the script is gone. */
export const scriptFailing: HealthCheck = {
  code: FAILING,
  setting: 'scriptFailing',
  subject: 'scripts',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const open = (await readOpen(FAILING, facts)).filter(({ subject }) => !subject.startsWith('queue/'));
    const wrong: Wrong[] = [];
    for (const [script, incidents] of Map.groupBy(open, ({ subject }) => subject)) {
      const count = incidents.reduce((sum, { occurrences }) => sum + occurrences, 0);
      if (count >= threshold) wrong.push(await tellFailures(script, incidents, count, facts));
    }
    const scripts = await facts.scripts();
    return { wrong, ok: `${counted(scripts.length, 'script succeeded', 'scripts succeeded')} or will be tried again` };
  },
};

async function readOpen(code: string, facts: CheckFacts): Promise<readonly IncidentRow[]> {
  const open = (await incidentsOf(facts.store.statements).current()).filter((incident) => incident.code === code);
  return await withoutGone(open, ({ subject }) => subject, facts);
}

async function tellFailures(
  script: string,
  incidents: readonly IncidentRow[],
  count: number,
  { store, nowMs }: CheckFacts,
): Promise<Wrong> {
  const last = incidents.reduce((one, other) => (other.last_at >= one.last_at ? other : one));
  const since = Math.min(...incidents.map(({ opened_at }) => opened_at));
  const how = last.message === null ? '' : `: ${printableName(last.message)}`;
  const times = count === 1 ? '' : `${counted(count, 'time', 'times')} in a row, since `;
  const name = printableName(script);
  return {
    subject: script,
    // No schedule depends on a tier that only somebody calls.
    status: tierPeriodMs(script.split('/')[0] as string) === null ? 'warning' : 'critical',
    message: ({ lasting }) => `${name} failed ${times}${lasting(nowMs - since)} ago${how}`,
    hint: `Run \`${await commandToLook(last, store)}\`.`,
  };
}

/** Shows the last run of an incident; if the log has it no more, the runs of its script. */
async function commandToLook(incident: IncidentRow, { statements }: CheckFacts['store']): Promise<string> {
  const run = await incidentsOf(statements).lastRun(incident);
  return run === null
    ? `npx folder-runner report ${shellWord(printableName(incident.subject))}`
    : `npx folder-runner show ${run.id}`;
}

/** Its settling notes what a run that succeeded has printed of a failure, and when that is over. */
export const scriptSuspect: HealthCheck = {
  code: SUSPECT,
  setting: 'scriptSuspect',
  subject: 'scripts',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const wrong = (await readOpen(SUSPECT, facts)).filter(({ occurrences }) => occurrences >= threshold);
    const told = await Promise.all(wrong.map((incident) => tellWarning(incident, facts)));
    return { wrong: told, ok: 'no script succeeded with a warning' };
  },
};

async function tellWarning(incident: IncidentRow, { store, nowMs }: CheckFacts): Promise<Wrong> {
  const { subject, occurrences, opened_at, message } = incident;
  const name = printableName(subject);
  const times = occurrences === 1 ? '' : `${counted(occurrences, 'time')}, since `;
  const how = message === null ? '' : `: ${printableName(message)}`;
  return {
    subject,
    status: 'warning',
    message: ({ lasting }) => `${name} succeeded with a warning ${times}${lasting(nowMs - opened_at)} ago${how}`,
    hint: `Run \`${await commandToLook(incident, store)}\`; if nothing has failed, \`@fail-on false\` in the script ends it.`,
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

/** A run that goes on, far over its usual time. */
interface SlowRun {
  /** `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly script: string;
  readonly runningMs: number;
  /** The median of its last successful runs. */
  readonly usualMs: number;
}

/** Those of these runs that have lasted far longer than earlier runs of their script. */
export async function findSlowRuns(
  { statements }: Pick<CheckFacts['store'], 'statements'>,
  running: readonly Pick<RunningRow, 'script' | 'startedAt'>[],
  nowMs: number,
): Promise<SlowRun[]> {
  const slow: SlowRun[] = [];
  for (const { script, startedAt } of running) {
    const runningMs = nowMs - startedAt;
    const before = await usualOf(statements).successes(script, startedAt, RECENT_RUNS);
    const durations = before.flatMap(({ durationMs }) => durationMs ?? []);
    const usualMs = findUsual('duration', runningMs, durations);
    // Some earlier runs took longer than that, which is usual, too.
    if (usualMs === null || durations.some((durationMs) => durationMs > runningMs)) continue;
    slow.push({ script, runningMs, usualMs });
  }
  return slow;
}

async function judgeDurations(long: readonly RunningRow[], facts: CheckFacts, threshold: number): Promise<Wrong[]> {
  const slow = await findSlowRuns(facts.store, long, facts.nowMs);
  const found = slow.filter(({ runningMs, usualMs }) => runningMs >= threshold * usualMs);
  return found.map(({ script, runningMs, usualMs }) => {
    const name = printableName(script);
    return {
      subject: script,
      status: 'warning',
      message: ({ lasting, describeRatio }) => {
        const usual =
          usualMs < 1000
            ? 'and usually takes less than a second'
            : `${describeRatio(runningMs / usualMs)} its usual ${lasting(usualMs)}`;
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

const QUEUE = 'queue';

export const crashes: HealthCheck = {
  code: 'crashes',
  setting: 'crashes',
  subject: 'workers',
  defaultThreshold: () => defaults.crashes,
  run: async (facts, threshold) => {
    const crashed = await facts.log.crashed(facts.nowMs - DAY_MS);
    const { whyTierIsGone } = await facts.presence();
    const byTier = Map.groupBy(crashed, ({ tier }) => tier ?? QUEUE);
    const isLeft = await Promise.all(
      [...byTier.keys()].map(async (tier) => tier === QUEUE || !(await whyTierIsGone(tier))),
    );
    return {
      wrong: [...byTier]
        .filter((_, index) => isLeft[index])
        .flatMap(([subject, workers]) => judgeCrashes(subject, workers, threshold, facts)),
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
  const what = subject === QUEUE ? counted(workers.length, 'worker') : counted(workers.length, 'pass', 'passes');
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
