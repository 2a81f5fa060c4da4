import { constants } from 'node:os';
import { Command, Option } from 'commander';
import type { ClaimedJob, ClaimOptions, Queue } from '../../queue/api.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { CommandContext } from '../shared/context.ts';
import { numberIn, readCount, withoutUndefined } from '../shared/options.ts';
import { withQueue } from '../shared/with-queue.ts';

interface ClaimCommandOptions {
  readonly wait?: string;
  readonly lease?: string;
  readonly minPriority?: string;
  readonly job?: string;
  readonly count?: string;
  readonly holding?: readonly string[];
  readonly follow?: true;
  readonly for?: string;
  readonly root?: string;
}

const CLAIM_HELP = `
Prints the job as JSON, with its data, the number of the try and the token of this claim; with --count
as {"jobs":[…]}. You must end the job before the lease expires:
\`npx folder-runner job <id> finish --token <token>\`, or retry, fail, bury; touch renews the lease.

Examples:
  runner claim 'mail/*'                      the next job, if one is due
  runner claim 'mail/*' export --wait 30s    waits for a job, without polling
  runner claim --lease 10m                   for work that takes longer
  runner claim --count 20                    up to twenty at once
  runner claim --min-priority 750            only jobs of this priority or a higher one
  runner claim --job 12                      this job, even if it is not due yet or has failed
  runner claim --wait 1m --holding 7         stops waiting when the claim of job 7 is about to expire
  job=$(runner claim --wait 1m) || exit 0    in a shell
  runner claim 'mail/*' --follow --for 55s   one process for many jobs, for a program in any language:
    prints     {"job":{"id":7,"name":"mail/welcome","data":{},…}}
    reads      {"id":7,"verb":"finish","result":{"sent":true}}
    prints     {"ok":{"id":7,"verb":"finish"}}, once that is on the disk

With --follow, the verbs are finish, retry, fail, bury, touch and update, with the options of the TypeScript
API; docs/queue.md has an example in PHP. Jobs that you have not ended at the end of its input are given back.

Exit codes: 0 a job was claimed, 1 there was none (nothing is printed), 2 usage error. With --job and --holding,
1 can have another reason, which stderr says. With --follow, 0 means that its input or its time was over.`;

/** `runner claim`: takes a job, for workers outside of the runner. */
export function claimCommand(context: CommandContext): Command {
  const command = new Command('claim');
  return command
    .description('claim a job of the queue, to process it yourself')
    .argument('[pattern...]', 'names: mail/welcome, or patterns such as "mail/*" (default: all)')
    .option('--wait <duration>', 'how long to wait for a job (default: not at all)')
    .option('--lease <duration>', 'how long the claim is valid (default: as the job or the settings say)')
    .option('--min-priority <n>', 'only jobs of this priority or a higher one')
    .option('--count <n>', 'maximum number of jobs; with --follow, of jobs that you have not ended (default: 1)')
    .addOption(
      new Option(
        '--holding <id>',
        'a job that you still hold: the wait ends when its claim is about to expire; may be repeated',
      )
        .argParser(collect)
        .conflicts('follow'),
    )
    .option('--follow', 'claim one job after another; each verdict is read from stdin')
    .option('--for <duration>', 'with --follow: claim no job after this time')
    .addOption(
      new Option('--job <id>', 'only this job; kicks it if it is not due yet or has failed').conflicts([
        'wait',
        'minPriority',
        'count',
        'holding',
        'follow',
      ]),
    )
    .addHelpText('after', CLAIM_HELP)
    .action((patterns: string[]) => claim(context, patterns, command.optsWithGlobals<ClaimCommandOptions>()));
}

function collect(id: string, ids: readonly string[] = []): readonly string[] {
  return [...ids, id];
}

async function claim(context: CommandContext, names: readonly string[], options: ClaimCommandOptions): Promise<void> {
  if (options.job !== undefined) return await claimNumbered(context, names, options.job, options);

  const patterns = names.length === 0 ? ['*'] : names;
  const count = options.count === undefined ? null : readCount('--count', options.count);
  if (options.for !== undefined && options.follow !== true) {
    throw new UsageError('--for goes with --follow; without it, --wait says how long to wait for a job.');
  }
  const { wait, lease } = options;
  const minPriority = numberIn(options.minPriority);
  const how = withoutUndefined({ lease, minPriority }) as ClaimOptions;
  const stop = stopBySignal();
  await withQueue(context, options.root, async (queue, root) => {
    if (options.follow === true) {
      const { follow, readTimes } = await import('./follow.ts');
      return await follow(context, queue, {
        root,
        patterns,
        count: count ?? 1,
        how,
        stop,
        ...readTimes(context, options),
      });
    }
    const holding = options.holding?.map((id) => numberIn(id) as number);
    const once = withoutUndefined({ ...how, wait, holding, signal: stop.signal });
    const jobs = await queue.claimMany(patterns, count ?? 1, once);
    if (jobs.length === 0) context.setExitCode(stop.exitCode() ?? 1);
    else await handOut(context, queue, { jobs, isList: count !== null });
  }).finally(stop.end);
}

async function claimNumbered(
  context: CommandContext,
  names: readonly string[],
  word: string,
  { lease, root }: ClaimCommandOptions,
): Promise<void> {
  if (names.length > 0)
    throw new UsageError('`npx folder-runner claim --job <id>` takes no names: it claims that job only.');
  await withQueue(context, root, async (queue) => {
    const job = await queue.claimJob(numberIn(word) as number, withoutUndefined({ lease }));
    await handOut(context, queue, { jobs: [job], isList: false });
  });
}

interface Claimed {
  readonly jobs: readonly ClaimedJob[];
  readonly isList: boolean;
}

/** What cannot be handed over never reached its worker: it is given back, and this was no try. */
async function handOut(
  { stdout, setExitCode }: CommandContext,
  queue: Queue,
  { jobs, isList }: Claimed,
): Promise<void> {
  const { formatJson } = await import('../../report/json.ts');
  const { claimedJobRecord } = await import('../../report/model/jobs.ts');
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const told = jobs.map(claimedJobRecord.toJson);
  // The one that there is would end the process before the job is given back.
  stdout.removeAllListeners('error');
  const isRead = await openTextOutput(stdout).write(formatJson(isList ? { jobs: told } : (told[0] as object)));
  if (isRead) return;
  await queue.requeue(
    jobs.map(({ id }) => id),
    { forgetTry: true },
  );
  setExitCode(1);
}

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** A wait that is broken off has claimed nothing. */
function stopBySignal() {
  const [abort, again] = [new AbortController(), new AbortController()];
  let code: number | null = null;
  const listeners = signals.map((signal) => {
    const listener = (): void => {
      code = 128 + constants.signals[signal];
      if (abort.signal.aborted) again.abort();
      abort.abort();
    };
    process.on(signal, listener);
    return () => process.off(signal, listener);
  });
  return {
    signal: abort.signal,
    again: again.signal,
    exitCode: () => code,
    end: () => {
      for (const remove of listeners) remove();
    },
  };
}
