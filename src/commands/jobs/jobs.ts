import { Command, Option } from 'commander';
import type { Job, ListOptions } from '../../queue/api.ts';
import type { Store } from '../../store/contract.ts';
import type { CommandContext } from '../shared/context.ts';
import { withLog } from '../shared/open.ts';
import { readCount } from '../shared/options.ts';

interface JobsOptions {
  readonly state?: string;
  readonly upcoming?: string;
  readonly count?: true;
  readonly limit?: string;
  readonly order?: string;
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Examples:
  runner jobs                         the newest 50 jobs of the queue
  runner jobs 'mail/*'                only matching names; * also matches /
  runner jobs --state failed          failed and buried jobs; \`runner kick\` queues them again
  runner jobs --state ready           due jobs; delayed: jobs that wait for their time
  runner jobs --order next            waiting jobs in the order of processing
  runner jobs --count                 how many jobs of each name are in each state
  runner jobs --upcoming 10           the next ten run times, including repeating jobs
  runner jobs --json                  for programs; docs/json.md names the keys

States: queued, claimed, running, retrying, paused, failed, finished, cancelled. \`runner job <id>\` shows one.`;

/** `runner jobs`: what is in the queue. */
export function jobsCommand(context: CommandContext): Command {
  const command = new Command('jobs');
  return command
    .description('list the jobs of the queue')
    .argument('[pattern]', 'names: mail/welcome, or a pattern such as "mail/*" (default: all)')
    .option('--state <state>', 'only this state; several separated by commas')
    .addOption(
      new Option('--upcoming <n>', 'the next n run times, in order').conflicts([
        'state',
        'count',
        'limit',
        'order',
      ]),
    )
    .addOption(
      new Option('--count', 'number of jobs by name and state').conflicts([
        'state',
        'limit',
        'order',
      ]),
    )
    .option(
      '--order <what>',
      'newest; next: order of processing; soonest: by time (default: newest)',
    )
    .option('--limit <n>', 'maximum number of jobs (default: 50)')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((pattern: string | undefined) =>
      showJobs(context, pattern ?? '*', command.optsWithGlobals<JobsOptions>()),
    );
}

async function showJobs(
  context: CommandContext,
  pattern: string,
  options: JobsOptions,
): Promise<void> {
  const request = { context, pattern, options };
  const describe = chooseDescription(options);
  const text = await withLog(context, options.root, ({ store }) => describe(store, request));
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  await openTextOutput(context.stdout).write(text);
}

interface Request {
  readonly context: CommandContext;
  readonly pattern: string;
  readonly options: JobsOptions;
}

/** Null: nothing has ever been added. */
type Describe = (store: Store | null, request: Request) => Promise<string>;

function chooseDescription({ upcoming, count }: JobsOptions): Describe {
  if (upcoming !== undefined) return describeUpcoming;
  return count === true ? describeCounts : describeList;
}

/** Whether it is one is for the queue to say. */
type JobOrder = NonNullable<ListOptions['order']>;

const DEFAULT_LIMIT = 50;
const MOST_UPCOMING = 1000;

async function describeList(
  store: Store | null,
  { context, pattern, options }: Request,
): Promise<string> {
  const { readJobStates } = await import('../../report/text/filters.ts');
  const { noJobs, readJobs } = await import('../../report/model/jobs.ts');
  const limit = readCount('--limit', options.limit) ?? DEFAULT_LIMIT;
  const states = options.state === undefined ? {} : readJobStates(options.state);
  const order = options.order === undefined ? {} : { order: options.order as JobOrder };
  const query = { pattern, ...states, ...order, limit };
  const list = store === null ? noJobs : await readJobs(store, query, context.now());
  if (options.json) {
    const { heldJobToJson } = await import('../../report/json.ts');
    const { findHold } = await import('../../report/text/words.ts');
    const toJson = (job: Job) => heldJobToJson(job, findHold(list.pauses, job));
    return await formatJson({ jobs: list.jobs.map(toJson) });
  }
  const { renderJobs } = await import('../../report/terminal/jobs.ts');
  return renderJobs(list, await screenOf(context));
}

async function describeCounts(
  store: Store | null,
  { context, pattern, options }: Request,
): Promise<string> {
  const { countJobs } = await import('../../queue/read/list.ts');
  const counts = store === null ? [] : await countJobs(store, pattern, context.now());
  if (options.json) {
    const { countToJson } = await import('../../report/json.ts');
    return await formatJson({ counts: counts.map(countToJson) });
  }
  const { renderJobCounts } = await import('../../report/terminal/jobs.ts');
  return renderJobCounts(counts, await screenOf(context));
}

async function describeUpcoming(
  store: Store | null,
  { context, pattern, options }: Request,
): Promise<string> {
  const { readUpcoming } = await import('../../report/model/jobs.ts');
  const limit = readCount('--upcoming', options.upcoming, MOST_UPCOMING) as number;
  const query = { pattern, limit, nowMs: context.now() };
  const upcoming = store === null ? [] : await readUpcoming(store, query);
  if (options.json) {
    const { upcomingToJson } = await import('../../report/json.ts');
    return await formatJson({ upcoming: upcoming.map(upcomingToJson) });
  }
  const { renderUpcoming } = await import('../../report/terminal/jobs.ts');
  return renderUpcoming(upcoming, await screenOf(context));
}

async function formatJson(value: object): Promise<string> {
  return (await import('../../report/json.ts')).formatJson(value);
}

async function screenOf(context: CommandContext) {
  return (await import('../../report/terminal/screen.ts')).createScreen(context);
}
