import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { readPatterns } from '../../queue/add/values.ts';
import type { Invocation, WorkerEvents } from '../../worker/invocation/invocation.ts';
import { withStore } from '../../worker/invocation/with-store.ts';
import type { WorkRequest } from '../../worker/loop/queue-limits.ts';
import type { CallSummary } from '../../worker/pass/run-tier.ts';
import { workQueue } from '../../worker/pass/work-queue.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { noteUnfitting } from '../shared/names.ts';
import { filesOfDeploy } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { runAndShow } from './live.ts';
import { countRuns } from './pass-view.ts';

/** `runner work`: works jobs of the queue off, with a line of progress on a terminal, silently elsewhere. */
export async function work(context: CommandContext, options: Given<'work'>): Promise<void> {
  const request = readRequest(options);
  // A worker lives long and makes much that is soon garbage: unasked, V8 lets that space grow by 50 MB.
  setFlagsFromString('--semi-space-growth-factor=1');
  const runner = await openRunner(context, options.root);
  await tellUnfitting(context, runner.root, request);
  const watchedFiles = [
    ...filesOfDeploy(context, runner.root),
    ...(options.watchFile === undefined ? [] : [resolve(context.cwd, options.watchFile)]),
  ];
  const isJson = options.json === true;
  const show = { isQueue: true, isSilent: isJson };
  await runAndShow(context, runner, show, async (call) => {
    const counts = isJson ? countForJson(call.events) : null;
    const worked = await workOffQueue(call, { ...request, watchedFiles });
    if (counts !== null) context.stdout.write((await import('../../report/json.ts')).formatJson(counts));
    return worked;
  });
}

/** @throws {QueueError} that names the first wrong pattern */
function readRequest(options: Given<'work'>): Omit<WorkRequest, 'watchedFiles'> {
  const { pattern: patterns, for: forMs = null, wait } = options;
  return {
    patterns: patterns.length === 0 ? [] : readPatterns(patterns),
    forMs,
    // With a time to fill it waits that long; without, it ends when nothing is due.
    waitMs: wait ?? (forMs === null ? 0 : null),
    maxJobs: options.maxJobs ?? null,
    maxMemoryBytes: options.maxMemory ?? null,
    maxLoad: options.maxLoad ?? null,
    concurrency: options.concurrency ?? 1,
    isAdaptive: options.adaptive === true,
    failsUnknown: options.failUnknown === true,
  };
}

function countForJson(events: WorkerEvents) {
  const counts = Object.assign(countRuns(events), { skipped: null as string | null });
  events.on('pass-skipped', ({ reason }) => {
    counts.skipped = reason;
  });
  return counts;
}

async function tellUnfitting(
  context: CommandContext,
  root: string,
  { patterns, failsUnknown }: Pick<WorkRequest, 'patterns' | 'failsUnknown'>,
): Promise<void> {
  if (patterns.length === 0 || failsUnknown) return;
  await noteUnfitting(context, root, patterns);
}

/** A whole call that works off the queue. Unlike scripts, jobs are nowhere but in the log. */
async function workOffQueue(call: Invocation, request: WorkRequest): Promise<CallSummary> {
  return await withStore(
    call,
    async (logged) => await workQueue(logged, request),
    async () => {
      call.events.emit('problem', 'no queue job was run: jobs are in the log, which cannot be used');
      return { ends: [], isBroken: true };
    },
  );
}
