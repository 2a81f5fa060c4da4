import { constants } from 'node:os';
import { Command } from 'commander';
import type { ClaimedJob, ClaimOptions, Queue } from '../../queue/api.ts';
import type { CommandContext } from '../shared/context.ts';
import { readCount, withoutUndefined } from '../shared/options.ts';

interface ClaimCommandOptions {
  readonly wait?: string;
  readonly lease?: string;
  readonly count?: string;
  readonly root?: string;
}

const EXAMPLES = `
Prints the job as JSON, with its data, the number of the try and the token of this claim; with --count
as {"jobs":[…]}. The claimant must end the job before the lease expires:
\`runner job <id> finish --token <token>\`, or retry, fail, bury; touch renews the lease.

Examples:
  runner claim 'mail/*'                      the next one, if one is due
  runner claim 'mail/*' export --wait 30s    waits for one, without polling
  runner claim --lease 10m                   for work that takes longer
  runner claim --count 20                    up to twenty at once
  job=$(runner claim --wait 1m) || exit 0    in a shell

Exit codes: 0 a job was claimed, 1 there was none (nothing is printed), 2 usage error.`;

/** `runner claim`: takes a job, for workers outside of the runner. */
export function claimCommand(context: CommandContext): Command {
  const command = new Command('claim');
  return command
    .description('claim a job of the queue, to process it yourself')
    .argument('[pattern...]', 'names: mail/welcome, or patterns such as "mail/*" (default: all)')
    .option('--wait <duration>', 'how long to wait for a job (default: not at all)')
    .option(
      '--lease <duration>',
      'how long the claim is valid (default: as the job or the settings say)',
    )
    .option('--count <n>', 'maximum number of jobs')
    .option('--json', 'accepted for consistency; the output is always JSON')
    .addHelpText('after', EXAMPLES)
    .action((patterns: string[]) =>
      claim(context, patterns, command.optsWithGlobals<ClaimCommandOptions>()),
    );
}

async function claim(
  context: CommandContext,
  names: readonly string[],
  options: ClaimCommandOptions,
): Promise<void> {
  const count = readCount('--count', options.count);
  const patterns = names.length === 0 ? ['*'] : names;
  const stop = stopBySignal();
  const { withQueue } = await import('../shared/with-queue.ts');
  await withQueue(context, options.root, async (queue) => {
    const { wait, lease } = options;
    const how = withoutUndefined({ wait, lease, signal: stop.signal }) as ClaimOptions;
    const jobs = await queue.claimMany(patterns, count ?? 1, how);
    if (jobs.length === 0) context.setExitCode(stop.exitCode() ?? 1);
    else await handOut(context, queue, { jobs, isList: count !== undefined });
  }).finally(stop.end);
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
  const { formatJson, claimedJobToJson } = await import('../../report/json.ts');
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const told = jobs.map(claimedJobToJson);
  // The one that there is would end the process before the job is given back.
  stdout.removeAllListeners('error');
  const isRead = await openTextOutput(stdout).write(
    formatJson(isList ? { jobs: told } : (told[0] as object)),
  );
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
  const abort = new AbortController();
  let code: number | null = null;
  const listeners = signals.map((signal) => {
    const listener = (): void => {
      code = 128 + constants.signals[signal];
      abort.abort();
    };
    process.on(signal, listener);
    return () => process.off(signal, listener);
  });
  return {
    signal: abort.signal,
    exitCode: () => code,
    end: () => {
      for (const remove of listeners) remove();
    },
  };
}
