import { Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { nearestName } from '../../base/suggest.ts';
import { printableLine } from '../../base/text.ts';
import { parseExactly } from '../../base/values.ts';
import { noSuchJob } from '../../queue/errors.ts';
import { readJob } from '../../queue/read/jobs.ts';
import type { JobStory } from '../../report/json.ts';
import {
  asFound,
  findLostClaims,
  selectActivityOfJob,
  selectChildren,
  selectRunsOfJob,
} from '../../report/model/jobs.ts';
import { findHold } from '../../report/text/words.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { type OpenLog, print, withLog } from '../shared/open.ts';
import {
  assertOptions,
  type JobSubcommand,
  type JobWords,
  jobVerbs,
  readVerb,
} from './job-verbs.ts';

interface JobCommandOptions extends JobWords, CommonOptions {}

const EXAMPLES = `
Verbs, with what each takes:
  finish   --result --data --token     running: it is done; stores its result
  retry    --delay --at --priority --name --data --reason --ignore-repeat --token
                                       running: puts it back into the queue
  fail     --reason --data --may-retry --token
                                       running: it has failed; with --may-retry only this try
  bury     --reason --priority --token running, waiting: sets it aside until it is kicked
  kick                                 failed, delayed: makes it due at once
  cancel                               waiting: it will not run
  touch    --lease --token             running: renews its claim
  delete   --token                     not running: removes it with its runs
  update   --data --priority --at --repeat --no-repeat --token
                                       any state, which stays
  requeue  --name --forget-try         any state: queues it again, first in line

Examples:
  runner job 12                                     show its data, runs and activity
  runner job 12 --json                              for programs; docs/json.md names the keys
  runner job 12 finish --token "$token" --result '{"sent":true}'
  runner job 12 retry --delay 10m --reason 'the server is busy'
  runner job 12 update --data - < data.json         large or secret data, from stdin

With \`--token\`, the command works only while that claim is valid.
Exit codes: 0 done, 1 not possible in the present state, 2 usage error.`;

/** `runner job`: shows one job of the queue, or does something to it. */
export function jobCommand(context: CommandContext): Command {
  const command = new Command('job');
  return command
    .description('show one job of the queue, or change it: finish, retry, kick, cancel …')
    .argument('<id>', 'number of the job')
    .argument('[verb]', 'what to do with it (default: show it)')
    .option('--token <token>', 'token of the claim')
    .option('--result <json>', 'its result; - reads it from stdin')
    .option('--data <json>', 'replaces its data; - reads it from stdin')
    .addOption(
      new Option('--delay <duration>', 'not before this time has passed: 10m').conflicts('at'),
    )
    .option('--at <when>', 'not before: "+10 minutes", "2026-12-24 18:00"')
    .option('--priority <n>', 'higher ones run first')
    .option('--name <name>', 'its new name')
    .option('--reason <text>', 'reason, in one sentence')
    .option('--repeat <rule>', 'its repeat rule: "SCHEDULED, +1 HOUR"')
    .option('--no-repeat', 'stop repeating it')
    .option('--ignore-repeat', 'repeating job: use --delay or --at instead of its next time')
    .option('--lease <duration>', 'how long the claim is valid from now on')
    .option('--may-retry', 'only this try has failed: its retries decide what follows')
    .option('--forget-try', 'do not count the last claim as a try')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((id: string, verb: string | undefined) =>
      job(context, { id, verb }, command.optsWithGlobals<JobCommandOptions>()),
    );
}

async function job(
  context: CommandContext,
  { id: word, verb: verbWord }: { readonly id: string; readonly verb: string | undefined },
  options: JobCommandOptions,
): Promise<void> {
  const id = readJobNumber(word, verbWord);
  const verb = verbWord === undefined ? null : readVerb(verbWord);
  assertOptions(verb, options);
  if (verb === null) await showJob(context, id, options);
  else await change(context, { id, verb, options });
}

interface Request {
  readonly id: number;
  readonly verb: JobSubcommand;
  readonly options: JobCommandOptions;
}

async function change(context: CommandContext, { id, verb, options }: Request): Promise<void> {
  const { withQueue } = await import('../shared/with-queue.ts');
  const { changeJob, readJobWords, describeChanged } = await import('./job-verbs.ts');
  const words = await readJobWords(options);
  const text = await withQueue(context, options.root, async (queue) => {
    await changeJob(queue, id, verb, words);
    return await describeChanged(context, await queue.get(id), { id, verb, ...options });
  });
  context.stdout.write(text);
}

function readJobNumber(word: string, verbWord: string | undefined): number {
  if (isJobNumber(word)) return Number(word);
  const isSwapped = verbWord !== undefined && isJobNumber(verbWord);
  const verb = isSwapped ? nearestName(word, jobVerbs) : null;
  const cure =
    verb === null
      ? '`runner jobs` lists them.'
      : `did you mean \`runner job ${verbWord} ${verb}\`?`;
  throw new UsageError(
    `runner job expects the number of a job, found ${JSON.stringify(printableLine(word))}; ${cure}`,
  );
}

function isJobNumber(word: string): boolean {
  return /^[1-9]\d{0,14}$/.test(word);
}

const MOST_CHILDREN = 1000;
const MOST_RUNS = 100;
const MOST_ACTIVITY = 200;

/** `runner job <id>`: everything about one job of the queue. */
async function showJob(context: CommandContext, id: number, options: CommonOptions): Promise<void> {
  const text = await withLog(context, options.root, async (log) =>
    describe(context, await readStory(log, id, context.now()), options),
  );
  await print(context, text);
}

async function readStory(
  { store, pauses, view }: OpenLog,
  id: number,
  nowMs: number,
): Promise<JobStory> {
  const job = store === null ? null : await readJob(store, id, parseExactly);
  if (store === null || job === null) throw noSuchJob(id);
  const log = await view();
  return {
    job: asFound(job, await findLostClaims(store, nowMs)),
    hold: findHold(pauses, job),
    children: await selectChildren(log, id, MOST_CHILDREN),
    runs: await selectRunsOfJob(log, id, MOST_RUNS),
    activity: await selectActivityOfJob(log, id, MOST_ACTIVITY),
  };
}

async function describe(
  context: CommandContext,
  story: JobStory,
  { json }: CommonOptions,
): Promise<string> {
  if (json) {
    const { formatJson } = await import('../../report/json.ts');
    return formatJson((await import('../../report/json.ts')).jobStoryToJson(story));
  }
  const { createScreen } = await import('../../report/terminal/screen.ts');
  return (await import('../../report/terminal/jobs.ts')).renderJob(story, createScreen(context));
}
