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
import type { CommandContext } from '../shared/context.ts';
import { type OpenLog, withLog } from '../shared/open.ts';
import {
  assertOptions,
  type JobSubcommand,
  type JobWords,
  jobVerbs,
  readVerb,
} from './job-verbs.ts';

interface JobCommandOptions extends JobWords {
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Verbs, with what each takes:
  finish   --result --data --token     it runs and is done; what it gave
  retry    --delay --at --priority --name --data --reason --ignore-repeat --token
                                       it runs and is given back, to be taken again
  fail     --reason --data --may-retry --token
                                       it runs and is not tried again, or as its retries say
  bury     --reason --priority --token it runs or waits, and is set aside until it is kicked
  kick                                 it failed or waits for its time, and is due at once
  cancel                               it waits, and is not to be run
  touch    --lease --token             it runs; its claim holds anew
  delete   --token                     it does not run, and goes with its history
  update   --data --priority --at --repeat --no-repeat --token
                                       in any state, without changing that
  requeue  --name --forget-try         queued anew from whatever state, as first in line

Examples:
  runner job 12                                     shows it: its data, runs and activity
  runner job 12 --json                              for programs; docs/json.md names the keys
  runner job 12 finish --token "$token" --result '{"sent":true}'
  runner job 12 retry --delay 10m --reason 'the server is busy'
  runner job 12 update --data - < data.json         data that is large or secret, from stdin

With the token that \`runner claim\` gave, only as long as that claim holds.
Exit codes: 0 done, 1 not possible as things stand, 2 wrong use.`;

/** `runner job`: shows one job of the queue, or does something to it. */
export function jobCommand(context: CommandContext): Command {
  const command = new Command('job');
  return command
    .description('show one job of the queue, or finish, retry, kick, cancel … it')
    .argument('<id>', 'its number')
    .argument('[verb]', 'what to do to it (default: show it)')
    .option('--token <token>', 'of the claim')
    .option('--result <json>', 'what it gave; - reads it from stdin')
    .option('--data <json>', 'replaces its data; - reads it from stdin')
    .addOption(new Option('--delay <duration>', 'not before this has passed: 10m').conflicts('at'))
    .option('--at <when>', 'not before: "+10 minutes", "2026-12-24 18:00"')
    .option('--priority <n>', 'higher ones go first')
    .option('--name <name>', 'it goes on under this name')
    .option('--reason <text>', 'why, in one sentence')
    .option('--repeat <rule>', 'when it runs again: "SCHEDULED, +1 HOUR"')
    .option('--no-repeat', 'it repeats no more')
    .option('--ignore-repeat', 'of a repeating job: not at its next time, but as said here')
    .option('--lease <duration>', 'how long the claim holds from now on')
    .option('--may-retry', 'only this try has failed: its retries say what follows')
    .option('--forget-try', 'the last claim counts as no try')
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

interface ShowOptions {
  readonly json?: true;
  readonly root?: string;
}

const MOST_CHILDREN = 1000;
const MOST_RUNS = 100;
const MOST_ACTIVITY = 200;

/** `runner job <id>`: everything about one job of the queue. */
async function showJob(context: CommandContext, id: number, options: ShowOptions): Promise<void> {
  const text = await withLog(context, options.root, async (log) =>
    describe(context, await readStory(log, id, context.now()), options),
  );
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  await openTextOutput(context.stdout).write(text);
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
  { json }: ShowOptions,
): Promise<string> {
  if (json) {
    const { formatJson } = await import('../../report/json.ts');
    return formatJson((await import('../../report/json.ts')).jobStoryToJson(story));
  }
  const { createScreen } = await import('../../report/terminal/screen.ts');
  return (await import('../../report/terminal/jobs.ts')).renderJob(story, createScreen(context));
}
