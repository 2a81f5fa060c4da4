import type { Site } from '../../discovery/site.ts';
import type { ListedJob, ListOptions } from '../../queue/api.ts';
import { countJobs, totalJobs } from '../../queue/read/list.ts';
import { formatJson } from '../../report/json.ts';
import { jobCountRecord, jobTotalsRecord, listedJobRecord, noJobs, readJobs } from '../../report/model/jobs.ts';
import { readUpcoming, upcomingJobRecord } from '../../report/model/next/upcoming-jobs.ts';
import { queuePaceRecord, readQueuePace } from '../../report/model/pace.ts';
import {
  renderJobCounts,
  renderJobs,
  renderJobTotals,
  renderQueuePace,
  renderUpcoming,
} from '../../report/terminal/jobs.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { parseOpenWindow, readJobStates } from '../../report/text/filters.ts';
import { findHold } from '../../report/text/words.ts';
import type { Store } from '../../store/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { numberIn } from '../shared/command.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';
import type { Given } from '../table.ts';

type Options = Given<'jobs'>;

/** `runner jobs`: what is in the queue. */
export async function showJobs(context: CommandContext, options: Options): Promise<void> {
  const describe = chooseDescription(options);
  const text = await withLog(context, options.root, (site) =>
    options.pace
      ? describeQueuePace(site, context, options)
      : describe(site.store, { context, pattern: '*', ...options }),
  );
  await print(context, text);
}

interface Request extends Options {
  readonly context: CommandContext;
  readonly pattern: string;
}

/** Null: nothing has ever been added. */
type Describe = (store: Store | null, request: Request) => Promise<string>;

function chooseDescription({ upcoming, count, totals }: Options): Describe {
  if (upcoming !== undefined) return describeUpcoming;
  if (totals === true) return describeTotals;
  return count === true ? describeCounts : describeList;
}

const DEFAULT_LIMIT = 50;

async function describeList(store: Store | null, { context, pattern, limit = DEFAULT_LIMIT, ...options }: Request) {
  const states = options.state === undefined ? {} : readJobStates(options.state);
  const { sinceMs: since, untilMs: until } = parseOpenWindow(options, context.now());
  // Whether it is a number, or such an order, is for the queue to say.
  const [before, after] = [numberIn(options.before), numberIn(options.after)] as (number | undefined)[];
  const order = options.order as ListOptions['order'];
  const query = { pattern, ...states, order, since, until, before, after, limit };
  const list = store === null ? noJobs : await readJobs(store, query, context.now());
  const toJson = (job: ListedJob) => listedJobRecord.toJson({ ...job, pause: findHold(list.pauses, job) });
  return options.json ? formatJson({ jobs: list.jobs.map(toJson) }) : renderJobs(list, createScreen(context));
}

async function describeQueuePace(site: Site, context: CommandContext, { json, pattern }: Options): Promise<string> {
  if (pattern !== undefined) throw new UsageError(`--pace shows all names: leave out ${JSON.stringify(pattern)}.`);
  const pace = await readQueuePace(site);
  return json ? formatJson(queuePaceRecord.toJson(pace)) : renderQueuePace(pace, createScreen(context));
}

async function describeCounts(store: Store | null, { context, pattern, json }: Request): Promise<string> {
  const counts = store === null ? [] : await countJobs(store, pattern, context.now());
  return json
    ? formatJson({ counts: counts.map(jobCountRecord.toJson) })
    : renderJobCounts(counts, createScreen(context));
}

async function describeTotals(store: Store | null, { context, pattern, json }: Request): Promise<string> {
  const totals = store === null ? [] : await totalJobs(store, pattern);
  return json
    ? formatJson({ totals: totals.map(jobTotalsRecord.toJson) })
    : renderJobTotals(totals, createScreen(context));
}

async function describeUpcoming(store: Store | null, { context, pattern, upcoming: limit = 0, json }: Request) {
  const query = { pattern, limit, nowMs: context.now() };
  const upcoming = store === null ? [] : await readUpcoming(store, query);
  return json
    ? formatJson({ upcoming: upcoming.map(upcomingJobRecord.toJson) })
    : renderUpcoming(upcoming, createScreen(context));
}
