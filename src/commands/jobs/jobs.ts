import { Command, Option } from 'commander';
import type { ListedJob, ListOptions } from '../../queue/api.ts';
import { createClock } from '../../report/text/clock.ts';
import { explainRepeat, formatInstant, type Moments, type RepeatRule } from '../../schedule/repeat/rule.ts';
import type { PlannedTime } from '../../schedule/repeat/series.ts';
import type { Store } from '../../store/store.ts';
import type { MissedPolicy } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { hostZone } from '../../system/base/zone.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';
import { numberIn, readCount, withoutUndefined } from '../shared/options.ts';

interface JobsOptions extends CommonOptions {
  readonly state?: string;
  readonly upcoming?: string;
  readonly count?: true;
  readonly totals?: true;
  readonly limit?: string;
  readonly order?: string;
  readonly since?: string;
  readonly until?: string;
  readonly before?: string;
  readonly after?: string;
}

const JOBS_HELP = `
Examples:
  runner jobs                         the newest 50 jobs of the queue
  runner jobs 'mail/*'                only matching names; * also matches /
  runner jobs --state failed          failed and buried jobs; \`npx folder-runner kick\` queues them again
  runner jobs --state ready           due jobs; delayed: jobs that wait for their time
  runner jobs --order next            waiting jobs in the order of processing
  runner jobs --order kick --limit 1  the job that \`npx folder-runner kick '*' --count 1\` would kick
  runner jobs --state failed --since 2026-11-01 --until 2026-11-02
                                      failed jobs that were added on these two days
  runner jobs --order oldest --after 250
                                      the next page: jobs with numbers above 250
  runner jobs --count                 how many jobs of each name are in each state
  runner jobs --totals                what has happened to jobs of each name since the log began
  runner jobs --upcoming 10           the next ten run times, including repeating jobs
  runner jobs --json                  for programs; docs/json.md names the keys

States: queued, claimed, running, retrying, paused, failed, finished, cancelled. \`npx folder-runner job <id>\` shows one job.`;

/** Options that choose and order jobs: counts and times have none of them. */
const OF_LISTS = ['state', 'order', 'since', 'until', 'limit', 'before', 'after'];

/** `runner jobs`: what is in the queue. */
export function jobsCommand(context: CommandContext): Command {
  const command = new Command('jobs');
  return command
    .description('list the jobs of the queue')
    .argument('[pattern]', 'names: mail/welcome, or a pattern such as "mail/*" (default: all)')
    .option('--state <state>', 'only this state; several separated by commas')
    .addOption(
      new Option('--upcoming <n>', 'the next n run times, in order').conflicts(['count', 'totals', ...OF_LISTS]),
    )
    .addOption(new Option('--count', 'number of jobs by name and state').conflicts(['totals', ...OF_LISTS]))
    .addOption(new Option('--totals', 'what has happened since the log began, by name').conflicts([...OF_LISTS]))
    .option('--order <what>', 'newest; oldest; next: order of processing; soonest: by time; kick (default: newest)')
    .option('--since <time>', 'only jobs added since then: 12h, yesterday, 2026-11-01, "2026-11-01 10:00"')
    .option('--until <time>', 'only jobs added before then; a day is included')
    .option('--limit <n>', 'maximum number of jobs (default: 50)')
    .option('--before <id>', 'only jobs with lower numbers')
    .option('--after <id>', 'only jobs with higher numbers')
    .option('--json', 'as JSON')
    .addHelpText('after', JOBS_HELP)
    .action((pattern: string | undefined) => showJobs(context, pattern ?? '*', command.optsWithGlobals<JobsOptions>()));
}

async function showJobs(context: CommandContext, pattern: string, options: JobsOptions): Promise<void> {
  const request = { context, pattern, options };
  const describe = chooseDescription(options);
  const text = await withLog(context, options.root, ({ store }) => describe(store, request));
  await print(context, text);
}

interface Request {
  readonly context: CommandContext;
  readonly pattern: string;
  readonly options: JobsOptions;
}

/** Null: nothing has ever been added. */
type Describe = (store: Store | null, request: Request) => Promise<string>;

function chooseDescription({ upcoming, count, totals }: JobsOptions): Describe {
  if (upcoming !== undefined) return describeUpcoming;
  if (totals === true) return describeTotals;
  return count === true ? describeCounts : describeList;
}

/** Whether it is one is for the queue to say. */
type JobOrder = NonNullable<ListOptions['order']>;

const DEFAULT_LIMIT = '50';
const MOST_UPCOMING = 1000;

async function describeList(store: Store | null, { context, pattern, options }: Request): Promise<string> {
  const { parseOpenWindow, readJobStates } = await import('../../report/text/filters.ts');
  const { noJobs, readJobs } = await import('../../report/model/jobs.ts');
  const limit = readCount('--limit', options.limit ?? DEFAULT_LIMIT);
  const states = options.state === undefined ? {} : readJobStates(options.state);
  const order = options.order === undefined ? {} : { order: options.order as JobOrder };
  const { sinceMs, untilMs } = parseOpenWindow(options, context.now());
  const choice = withoutUndefined({
    since: sinceMs === undefined ? undefined : new Date(sinceMs),
    until: untilMs === undefined ? undefined : new Date(untilMs),
    before: numberIn(options.before),
    after: numberIn(options.after),
  });
  const query = { pattern, ...states, ...order, ...choice, limit };
  const list = store === null ? noJobs : await readJobs(store, query, context.now());
  if (options.json) {
    const { listedJobRecord } = await import('../../report/model/jobs.ts');
    const { findHold } = await import('../../report/text/words.ts');
    const toJson = (job: ListedJob) => listedJobRecord.toJson({ ...job, pause: findHold(list.pauses, job) });
    return await formatJson({ jobs: list.jobs.map(toJson) });
  }
  const { renderJobs } = await import('../../report/terminal/jobs.ts');
  return renderJobs(list, await screenOf(context));
}

async function describeCounts(store: Store | null, { context, pattern, options }: Request): Promise<string> {
  const { countJobs } = await import('../../queue/read/list.ts');
  const counts = store === null ? [] : await countJobs(store, pattern, context.now());
  if (options.json) {
    const { jobCountRecord } = await import('../../report/model/jobs.ts');
    return await formatJson({ counts: counts.map(jobCountRecord.toJson) });
  }
  const { renderJobCounts } = await import('../../report/terminal/jobs.ts');
  return renderJobCounts(counts, await screenOf(context));
}

async function describeTotals(store: Store | null, { context, pattern, options }: Request): Promise<string> {
  const { totalJobs } = await import('../../queue/read/list.ts');
  const totals = store === null ? [] : await totalJobs(store, pattern);
  if (options.json) {
    const { jobTotalsRecord } = await import('../../report/model/jobs.ts');
    return await formatJson({ totals: totals.map(jobTotalsRecord.toJson) });
  }
  const { renderJobTotals } = await import('../../report/terminal/jobs.ts');
  return renderJobTotals(totals, await screenOf(context));
}

async function describeUpcoming(store: Store | null, { context, pattern, options }: Request): Promise<string> {
  const { readUpcoming } = await import('../../report/model/jobs.ts');
  const limit = readCount('--upcoming', options.upcoming as string, MOST_UPCOMING);
  const query = { pattern, limit, nowMs: context.now() };
  const upcoming = store === null ? [] : await readUpcoming(store, query);
  if (options.json) {
    const { upcomingToJson } = await import('../../report/model/jobs.ts');
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

interface RepeatOptions {
  readonly scheduled?: string;
  readonly started?: string;
  readonly finished?: string;
  readonly count: string;
  readonly missed?: MissedPolicy;
  readonly script?: true;
  readonly json?: true;
}

const REPEAT_HELP = `
Write times as 2026-03-10 (midnight) or "2026-03-10 13:00:00", in UTC unless they end in Z or an offset
such as +01:00. Times you leave out default to the ones you give, or to now. Each
further time is computed as if the job had run at the previous one. Without --missed the times are exactly
those of the rule, including past ones. docs/scripts.md has the rules.

Examples:
  runner repeat 'SCHEDULED, +1 HOUR'
  runner repeat 'FINISHED, +1 DAY, START OF DAY' --finished '2026-03-10 13:45'
  runner repeat 'SCHEDULED, +1 HOUR' --scheduled 2026-03-10 --missed once
  runner repeat 'weekdays every 15min from 09:00 to 17:00'
  runner repeat '0 7 * * 1'             cron's five fields: every Monday at seven
  runner repeat --script 'every 2 hours'
  runner repeat 'weekly on monday at 01:00 in Europe/Berlin' --count 3 --json`;

const missedPolicies: readonly MissedPolicy[] = ['all', 'once', 'skip'];
const MISSED_HELP = 'policy for missed times: shows when a job would really run';

/** `runner repeat`: what a repeat rule means. */
export function repeatCommand(context: CommandContext): Command {
  const command = new Command('repeat');
  return command
    .description('explain a rule of a job or a script and show its next times')
    .argument('<rule>', 'such as "daily at 10:00", "0 7 * * 1" or "SCHEDULED, +1 HOUR"')
    .option('--scheduled <time>', 'when the previous run was scheduled')
    .option('--started <time>', 'when that run started')
    .option('--finished <time>', 'when that run finished')
    .option('--count <number>', 'how many times to show, up to 1000', '5')
    .addOption(new Option('--missed <policy>', MISSED_HELP).choices(missedPolicies))
    .option('--script', 'read the rule as the @schedule of a script, where every 2 hours follows the clock')
    .option('--json', 'as JSON')
    .addHelpText('after', REPEAT_HELP)
    .action((text: string) => explain(context, text, command.optsWithGlobals<RepeatOptions>()));
}

async function explain(context: CommandContext, text: string, options: RepeatOptions): Promise<void> {
  const { parseRepeat, parseSchedule } = await import('../../schedule/repeat/parse.ts');
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const { formatJson } = await import('../../report/json.ts');

  const output = openTextOutput(context.stdout);
  const count = readCount('--count', options.count, 1000);
  const moments = await readMoments(options, context.now());
  const parsed = options.script ? parseSchedule(text, null) : parseRepeat(text);
  if ('problem' in parsed) {
    const { problem } = parsed;
    if (options.json) await output.write(formatJson({ valid: false, problem }));
    throw new UsageError(problem);
  }
  const explained = await computeTimes(parsed.rule, { moments, count, missed: options.missed });
  await output.write(options.json ? formatJson(repeatToJson(explained)) : renderRepeat(explained));
}

interface Wanted {
  readonly moments: Readonly<Record<keyof Moments, number>>;
  readonly count: number;
  readonly missed: MissedPolicy | undefined;
}

async function computeTimes(rule: RepeatRule, { moments, count, missed }: Wanted): Promise<ExplainedRepeat> {
  const { listPlans, listTimes } = await import('../../schedule/repeat/series.ts');
  if (missed === undefined) return { rule, ...(await listTimes(rule, moments, count)), plan: null };
  const { defaultSettings } = await import('../../settings/settings.ts');
  const options = { missed, cap: defaultSettings.queue.missedCap, nowMs: moments.finished };
  const plans = await listPlans(rule, moments, options, count);
  const times = plans.map(({ runAt }) => runAt);
  return { rule, times, isStuck: false, plan: { missed, times: plans } };
}

/** Those that are not given are the same as the one that comes next to them. */
async function readMoments(options: RepeatOptions, nowMs: number): Promise<Wanted['moments']> {
  const { parseInstant } = await import('../../schedule/repeat/rule.ts');
  const read = (option: keyof Moments): number | undefined => {
    const text = options[option];
    if (text === undefined) return undefined;
    const atMs = parseInstant(text);
    if (atMs !== null) return atMs;
    throw new UsageError(
      `--${option} must be a time in UTC such as 2026-03-10 or "2026-03-10 13:00:00", found ${JSON.stringify(text)}.`,
    );
  };
  const [scheduled, started, finished] = [read('scheduled'), read('started'), read('finished')];
  return {
    scheduled: scheduled ?? started ?? finished ?? nowMs,
    started: started ?? scheduled ?? finished ?? nowMs,
    finished: finished ?? started ?? scheduled ?? nowMs,
  };
}

/** A rule and the times that it gives. */
interface ExplainedRepeat {
  readonly rule: RepeatRule;
  readonly times: readonly number[];
  readonly isStuck: boolean;
  /** Null: the times are those of the rule alone. */
  readonly plan: { readonly missed: MissedPolicy; readonly times: readonly PlannedTime[] } | null;
}

/** `runner repeat --json`; docs/scripts.md has the keys. */
function repeatToJson({ rule, times, plan }: ExplainedRepeat): object {
  return {
    valid: true,
    rule: rule.text,
    explanation: explainRepeat(rule),
    next: times.map(formatInstant),
    ...(rule.kind === 'calendar' && localTimes(rule.zone ?? hostZone(), times)),
    ...(plan && {
      missed: plan.missed,
      plan: plan.times.map(({ runAt, scheduledFor, skipped }) => ({
        runAt: formatInstant(runAt),
        scheduledFor: formatInstant(scheduledFor),
        skipped,
      })),
    }),
  };
}

function localTimes(zone: string, times: readonly number[]) {
  const clock = createClock(0, zone);
  return { zone, local: times.map((time) => clock.dateTime(time)) };
}

/** `runner repeat`. */
function renderRepeat(explained: ExplainedRepeat): string {
  const { rule, times, isStuck, plan } = explained;
  const lines = plan === null ? times.map(describeTime(rule)) : plan.times.map(describePlan);
  if (isStuck) {
    lines.push('', 'It never moves forward: a job would wait 1 second and run again.');
  }
  if (lines.length === 0) lines.push('It gives no time before the year 10000.');
  return `${[rule.text, explainRepeat(rule), '', ...lines].join('\n')}\n`;
}

function describeTime(rule: RepeatRule): (time: number) => string {
  if (rule.kind === 'moment') return (time) => `${formatInstant(time)} UTC`;
  const clock = createClock(0, rule.zone ?? hostZone());
  return (time) => {
    const [utc, local] = [formatInstant(time), clock.dateTime(time)];
    return `${utc} UTC${local === utc ? '' : `  ${local} ${clock.zone}`}`;
  };
}

function describePlan({ runAt, scheduledFor, skipped }: PlannedTime): string {
  const rest = skipped === 0 ? '' : `, ${skipped} skipped`;
  return `${formatInstant(runAt)} UTC  for ${formatInstant(scheduledFor)}${rest}`;
}
