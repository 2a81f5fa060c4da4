import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { openHandlers } from '../../discovery/handlers.ts';
import { withoutParameters } from '../../discovery/script.ts';
import { readPatterns } from '../../queue/add/values.ts';
import type { Runner } from '../../settings/settings.ts';
import { matchGlob } from '../../system/base/glob.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CallSummary, Invocation, WorkerEvents } from '../../worker/invocation/invocation.ts';
import { withStore } from '../../worker/invocation/with-store.ts';
import type { WorkRequest } from '../../worker/loop/queue-limits.ts';
import { workQueue } from '../../worker/pass/work-queue.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { filesOfDeploy } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { countRuns, runAndShow } from './run-tier.ts';

/** `runner work`: works jobs of the queue off, with a line of progress on a terminal, silently elsewhere. */
export async function work(context: CommandContext, options: Given<'work'>): Promise<void> {
  const request = readRequest(options);
  // A worker lives long and makes much that is soon garbage: unasked, V8 lets that space grow by 50 MB.
  setFlagsFromString('--semi-space-growth-factor=1');
  const runner = await openRunner(context, options.root);
  await tellUnfitting(context, runner, request);
  const watchedFiles = [
    ...filesOfDeploy(context, runner.root),
    ...runner.settings.given.files.map(({ path }) => path),
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

/** More would drown what was asked for. */
const MOST_NOTES = 10;

/** Tells of patterns that no handler here fits: the worker takes no job because of them. */
async function tellUnfitting(
  { stderr }: CommandContext,
  { root, settings }: Runner,
  { patterns, failsUnknown }: Pick<WorkRequest, 'patterns' | 'failsUnknown'>,
): Promise<void> {
  if (patterns.length === 0 || failsUnknown) return;
  const handlers = (await openHandlers(root, settings)).names();
  const fits = (pattern: string) => handlers.some((handler) => matchGlob(pattern, handler));
  for (const pattern of patterns.slice(0, MOST_NOTES)) {
    if (fits(pattern) || fits(withoutParameters(pattern))) continue;
    const what = `no handler that matches ${printableLine(pattern)} here`;
    stderr.write(`Note: jobs/queue/ has ${what}, so no such job is claimed. Check the name, or add the handler.\n`);
  }
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
