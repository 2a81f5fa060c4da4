import { openHandlers } from '../../discovery/handlers.ts';
import { createHandlerRunner } from '../../execution/handler-runner.ts';
import type { RunEnd } from '../../execution/run-end.ts';
import { readTreeUsage } from '../../process/process-tree.ts';
import { watchLog } from '../../store/watch-log.ts';
import type { LoggedCall } from '../pass.ts';
import { createFileWatch } from './file-watch.ts';
import { createGroupCommit, type GroupCommit } from './group-commit.ts';
import { keepLeases } from './keep-leases.ts';
import { createLaneBell } from './lane-bell.ts';
import { createLanesAtWork } from './lanes-at-work.ts';
import { createPace } from './pace.ts';
import { createQueueJournal } from './queue-journal.ts';
import { createSelector } from './queue-selection.ts';
import type { Lane } from './run-lane.ts';
import { createTakeRules } from './take-rules.ts';
import type { WorkRequest } from './work-request.ts';

/** All that a worker works with, until it is closed. */
export interface Lanes {
  readonly lanes: readonly Lane[];
  readonly commit: GroupCommit;
  close(): void;
}

/** How often is looked at what is too dear to be looked at for each job. */
const LOOK_MS = 1_000;

/** One lane for each job at the same time. */
export async function createLanes(
  call: LoggedCall,
  request: WorkRequest,
  workerId: number,
  keep: (end: RunEnd) => void,
): Promise<Lanes> {
  const { runner, store, events } = call;
  const { childJobs, childMemoryBytes } = runner.settings.queue;
  const commit = createGroupCommit(store, workerId);
  const watch = watchLog(runner.state, store);
  const handlers = await openHandlers(runner.root, runner.settings);
  if (handlers.problem !== null) events.emit('trouble', handlers.problem);
  const { groupLimit } = runner.settings.queue;
  const version = () => watch.look();
  const selector = createSelector({ db: store.db, handlers, request, groupLimit, version });
  const bell = createLaneBell(call.stop.noMore);
  const leases = keepLeases(call, workerId, bell.ring);
  const rules = rulesOf(call, request);
  const pace = createPace(call, request);
  const ticker = setInterval(rules.look, LOOK_MS).unref();
  const shared: Omit<Lane, 'runner' | 'admit' | 'leave'> = {
    ...{ call, watch, bell, commit, leases, rules },
    atWork: createLanesAtWork(bell.ring),
    journal: createQueueJournal({
      ...{ store, workerId, runner, handlers, selector, commit },
      onRefused: (sentence) => events.emit('warning', sentence),
    }),
    findHandler: handlers.find,
    ...limitsOf(call, request),
    waitMs: request.waitMs ?? Number.POSITIVE_INFINITY,
    onEnded: ({ claim, end, script }, verdict) => {
      const nextTryAt = verdict?.state === 'retrying' ? verdict.runAt : null;
      pace.note(end.durationMs ?? 0);
      keep(end);
      events.emit('run-finished', { runId: claim.runId, jobId: claim.id, script, end, nextTryAt });
    },
  };
  return {
    lanes: Array.from({ length: request.concurrency }, (_, index) => ({
      ...shared,
      runner: createHandlerRunner({ childJobs, childMemoryBytes }),
      admit: () => pace.admit(index),
      leave: () => pace.leave(index),
    })),
    commit,
    close: () => {
      clearInterval(ticker);
      leases.stop();
      watch.close();
    },
  };
}

function rulesOf({ stop }: LoggedCall, request: WorkRequest) {
  return createTakeRules({
    request,
    stop,
    files: createFileWatch(request.watchedFiles),
    startedAt: performance.now(),
    readMemoryBytes: () => readTreeUsage(process.pid)?.rssBytes ?? process.memoryUsage.rss(),
  });
}

/** Who waits for jobs waits as long for room; who does not, as long as a script would. */
function limitsOf({ runner }: LoggedCall, { maxLoad, waitMs, isAdaptive }: WorkRequest) {
  const { settings } = runner;
  const limits = {
    ...settings.limits,
    maxLoad: maxLoad ?? settings.limits.maxLoad,
    maxWaitMs: Math.max(settings.limits.maxWaitMs, waitMs ?? Number.POSITIVE_INFINITY),
  };
  const { minFreeMemoryBytes, maxProcesses } = limits;
  const isLimited = [limits.maxLoad, minFreeMemoryBytes, maxProcesses].some(
    (each) => each !== null,
  );
  return { limits, isHeldBack: isLimited || isAdaptive };
}
