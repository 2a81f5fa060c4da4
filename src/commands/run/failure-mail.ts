import { hostname } from 'node:os';
import type { Runner } from '../../settings/settings.ts';
import { isFailure } from '../../store/schema.ts';
import type { RunFinished, WorkerEvents } from '../../worker/invocation/events.ts';
import type { CommandContext } from '../shared/context.ts';

const LAST_LINES = 20;

/** A worker of the queue may meet thousands. */
const MOST_TOLD = 100;

interface FailureSummary {
  /** Writes it to stderr, where cron makes a mail of it; nothing when nothing failed. */
  print(): Promise<void>;
}

/** Collects the runs that failed: one message for a pass, however many they are. */
export function summarizeFailures(
  context: CommandContext,
  runner: Runner,
  events: WorkerEvents,
): FailureSummary {
  const failed: RunFinished[] = [];
  const scripts = new Set<string>();
  /** Those told of whose next try is still to come. */
  const awaiting = new Map<number | string, RunFinished>();
  let runs = 0;
  let failures = 0;
  events.on('run-finished', (run) => {
    runs += 1;
    scripts.add(run.script);
    const whose = run.jobId ?? run.script;
    awaiting.delete(whose);
    if (!isFailure(run.end.outcome)) return;
    failures += 1;
    if (failed.length === MOST_TOLD) return;
    failed.push(run);
    if (run.nextTryAt !== null) awaiting.set(whose, run);
  });
  return {
    print: async () => {
      if (failures === 0) return;
      const head = `runner: ${failures} of ${runs} ${nameRuns(scripts, runs)} did not succeed (${runner.root} on ${hostname()})`;
      const removed = await findRemovedRuns(runner, failed);
      const isAwaiting = new Set(awaiting.values());
      const blocks = await Promise.all(
        failed.map((run) => describeFailure(run, removed.has(run), isAwaiting.has(run))),
      );
      const rest = failures > MOST_TOLD ? [`${failures - MOST_TOLD} more: runner report`] : [];
      context.stderr.write(`${[head, ...blocks, ...rest].join('\n\n')}\n`);
    },
  };
}

/** A script whose next try was made in the same call has run twice. */
function nameRuns(scripts: ReadonlySet<string>, runs: number): string {
  const tiers = new Set([...scripts].map((script) => script.split('/', 1)[0]));
  const names = [...tiers].join(', ');
  if (names === 'queue') return 'runs of the queue';
  return `${scripts.size === runs ? 'scripts' : 'runs'} of ${names}`;
}

async function describeFailure(
  run: RunFinished,
  isRemoved: boolean,
  isAwaiting: boolean,
): Promise<string> {
  const { script, jobId, end, nextTryAt } = run;
  const { printable, printableLine } = await import('../../base/text.ts');
  const { formatDuration } = await import('../../report/text/format.ts');
  const how = `${end.outcome} after ${formatDuration(end.durationMs)}`;
  const who = script.startsWith('queue/') ? 'worker' : 'pass of any tier';
  const nextTry = (at: number) =>
    `  will be retried by the next ${who}, ${formatDuration(Math.max(0, at - Date.now()))} from now or later`;
  const reason = printable(end.reason ?? '').replaceAll('\n', '\n  ');
  const lines = printable(end.output.text).trimEnd().split('\n').slice(-LAST_LINES);
  const none = end.outcome === 'not-started' ? [] : ['(no output)'];
  const output = lines.join('') === '' ? none : lines;
  return [
    `${printableLine(script)}${jobId === null ? '' : ` (job ${jobId})`} ${how}: ${reason}`,
    ...output.map((line) => `  | ${line}`),
    ...(nextTryAt === null ? [] : [isAwaiting ? nextTry(nextTryAt) : '  tried again meanwhile']),
    ...(isRemoved ? ['  no more is kept of it: queue.archive'] : whereToLook(run)),
  ].join('\n');
}

/** What the log does not have yet cannot be shown. */
function whereToLook({ runId, jobId }: RunFinished): string[] {
  const run = runId === null ? [] : [`  all of it: runner show ${runId}`];
  return jobId === null ? run : [...run, `  its job: runner job ${jobId}`];
}

/** Of these runs, those that went with their jobs, as the settings ask for. */
async function findRemovedRuns(
  { state, settings }: Runner,
  runs: readonly RunFinished[],
): Promise<ReadonlySet<RunFinished>> {
  const ids = runs.flatMap(({ runId, jobId }) => (runId === null ? [] : (jobId ?? [])));
  if (Object.keys(settings.queue.archive).length === 0 || ids.length === 0) return new Set();
  const { openExistingStore } = await import('../../store/sqlite/open.ts');
  const store = await openExistingStore(state).catch(() => null);
  if (store === null) return new Set();
  const jobs = await store.jobs.byId(ids).finally(() => store.close());
  const kept = new Set(jobs.map(({ id }) => id));
  return new Set(
    runs.filter(({ runId, jobId }) => runId !== null && jobId !== null && !kept.has(jobId)),
  );
}
