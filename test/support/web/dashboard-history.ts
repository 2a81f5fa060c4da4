import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import { settleRuns } from '../../../src/queue/settle/settle.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import { makeFinishedRun } from '../log/finished-run.ts';
import { running, type WrittenLog, writeLog } from '../log/written-log.ts';
import { executable, makeTemporaryRoot } from '../places/temporary-root.ts';

const MINUTE_MS = 60_000;

/** Names that a small site has; a large one has the same for each of its customers. */
const usual = [
  '15min/check-mailbox',
  'hourly/import-orders',
  'hourly/clean-uploads',
  'daily/backup-database',
  'daily/send-newsletter',
];

const periods: Readonly<Record<string, number>> = { '15min': 15, hourly: 60, daily: 24 * 60 };

interface HistoryOptions {
  /** Default 5. */
  readonly scripts?: number;
  /** Passes of each tier, the newest a few minutes ago. Default 20. */
  readonly passes?: number;
  /** What of these fails in the newest pass, and how. */
  readonly failing?: Readonly<Record<string, Partial<FinishedRun>>>;
  /** Runs now, begun so many milliseconds ago. */
  readonly running?: Readonly<Record<string, number>>;
}

export interface History {
  readonly root: string;
  readonly log: WrittenLog;
  readonly scripts: readonly string[];
}

/** Names of so many scripts. */
function nameScripts(count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const name = usual[index % usual.length] as string;
    const customer = Math.floor(index / usual.length);
    return customer === 0 ? name : `${name}-${String(customer).padStart(3, '0')}`;
  });
}

/** How the error of an import reads, with a stack and output that fit it. */
export const brokenImport: Partial<FinishedRun> = {
  ...{ outcome: 'failed', exit_code: 1, reason: 'exit code 1', error_name: 'Error' },
  error_message: 'orders.csv:3 does not have 3 columns',
  error_stack: 'Error: orders.csv:3 does not have 3 columns\n    at jobs/hourly/import-orders.ts:9:26',
  output: 'reading orders.csv\n',
};

/** A root whose scripts have run for a while, as they do: some slower than others, some failing now. */
export async function writeHistory(options: HistoryOptions = {}): Promise<History> {
  const { scripts: count = 5, passes = 20, failing = {}, running: open = {} } = options;
  const scripts = nameScripts(count);
  const file = executable('#!/bin/sh\nexit 0\n');
  const root = makeTemporaryRoot(Object.fromEntries(scripts.map((name) => [`jobs/${name}.sh`, file])));
  const log = await writeLog(root);
  const now = Date.now();
  for (let pass = passes; pass > 0; pass -= 1) {
    for (const [tier, minutes] of Object.entries(periods)) {
      const at = now - (pass - 1) * minutes * MINUTE_MS - 4 * MINUTE_MS;
      const names = scripts.filter((name) => name.startsWith(`${tier}/`));
      await writePass(log, tier, { at, names, isLast: pass === 1, failing });
    }
  }
  for (const [script, forMs] of Object.entries(open)) {
    const [at, tier] = [now - forMs, script.split('/')[0] as string];
    const workerId = await log.addPass(tier, at, { state: 'running', kind: 'script', pid: process.pid });
    const here = { ...running, worker_id: workerId, pid: process.pid, max_rss_bytes: 64 * 1024 * 1024 };
    await log.addRun(script, at, here);
  }
  return { root, log, scripts };
}

interface WrittenPass {
  readonly at: number;
  readonly names: readonly string[];
  readonly isLast: boolean;
  readonly failing: Readonly<Record<string, Partial<FinishedRun>>>;
}

/** One pass with its runs, settled as a pass does it: incidents included. */
async function writePass(log: WrittenLog, tier: string, { at, names, isLast, failing }: WrittenPass): Promise<void> {
  if (names.length === 0) return;
  const workerId = await log.addPass(tier, at);
  await log.store.transaction(async (session) => {
    const ids = await session.scriptJobs.enqueue(names.map((name) => ({ name, tier, scheduledFor: at, at })));
    const claims = ids.map((id, index) => ({ id, token: `${workerId}.${index + 1}` }));
    await session.scriptJobs.claim(claims.map((claim) => ({ ...claim, state: 'running' as const, at })));
    const runs = names.map((script, index) => {
      const claim = claims[index] as (typeof claims)[number];
      // Within the second that the pass took.
      const startedAt = at + Math.floor((index * 900) / names.length);
      const failure = isLast ? failing[script] : undefined;
      const place = { jobId: claim.id, workerId, key: claim.token, script, contentHash: null };
      const start = { ...place, attempt: 1, scheduledFor: at, startedAt, timeoutMs: null };
      const end = { ...usualEnd(script, startedAt), ...failure };
      return { claim, start, runId: null, end, result: null, decision: null, isRetryable: true, policy: policyOf() };
    });
    await settleRuns(session, runs, { missedCap: 0 });
  }, 'soon');
}

/** Each script is as slow and as large as its name says, give or take a third: the same in each run of the tests. */
function usualEnd(script: string, startedAt: number): FinishedRun {
  const weight = hash(script);
  const duration = Math.round((40 + (weight % 97) ** 2) * (0.8 + (hash(`${script}${startedAt % 977}`) % 50) / 100));
  return makeFinishedRun({
    ...{ finished_at: startedAt + duration, duration_us: duration * 1000 },
    ...{ user_cpu_us: 1000 * Math.round(duration * 0.4), system_cpu_us: 1000 * Math.round(duration * 0.1) },
    max_rss_bytes: (20 + (weight % 120)) * 1024 * 1024,
  });
}

function hash(text: string): number {
  return [...text].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 100_003, 7);
}
