import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import type { CommandContext } from './command-context.ts';
import { findKnownTiers, withLog } from './open-log.ts';

interface TailOptions {
  readonly follow?: true;
  readonly root?: string;
}

const LOG_POLL_MS = 500;

/** 128 + SIGINT, as shells do. */
const EXIT_INTERRUPTED = 130;

const EXAMPLES = `
Examples:
  runner tail hourly/clean-tmp       what its newest run has written, also while it runs
  runner tail hourly/clean-tmp -f    follow it until it ends; if it does not run, wait for its next run

The output goes to stdout, notes about the run go to stderr.`;

/** `runner tail`: the output of a script's newest run. */
export function tailCommand(context: CommandContext): Command {
  const command = new Command('tail');
  return command
    .description("show the output of a script's newest run, live while it runs")
    .argument('<script>', 'the name of the script')
    .option('-f, --follow', 'follow until the run ends; wait for the next one if none goes on')
    .addHelpText('after', EXAMPLES)
    .action((script: string) => tail(context, script, command.optsWithGlobals<TailOptions>()));
}

async function tail(context: CommandContext, word: string, options: TailOptions): Promise<void> {
  const interrupt = new AbortController();
  const stop = (): void => interrupt.abort();
  process.once('SIGINT', stop);
  try {
    await tailWhenThere(context, { word, options, signal: interrupt.signal });
  } finally {
    process.off('SIGINT', stop);
  }
  if (interrupt.signal.aborted) context.setExitCode(EXIT_INTERRUPTED);
}

interface TailRequest {
  readonly word: string;
  readonly options: TailOptions;
  readonly signal: AbortSignal;
}

/** Where nothing has ever run there is no log to look into: following waits for that too. */
async function tailWhenThere(context: CommandContext, request: TailRequest): Promise<void> {
  const { word, options, signal } = request;
  const { findNames } = await import('../report/read-script-runs.ts');
  const { findScript } = await import('../report/find-script.ts');
  const isLogThere = await withLog(context, options.root, async ({ root, state, db, hasLog }) => {
    const script = findScript(word, await findNames(db, await findKnownTiers(context, root)));
    if (!hasLog) return false;
    const { openTextOutput } = await import('../report/text-output.ts');
    const { tailScript } = await import('../report/tail-script.ts');
    const output = openTextOutput(context.stdout);
    const note = (text: string): void => void context.stderr.write(`${text}\n`);
    const isFollowing = options.follow === true;
    await tailScript({ script, db, state, isFollowing, signal, output, note });
    return true;
  });
  if (isLogThere || signal.aborted) return;
  if (!options.follow) return void context.stderr.write('Nothing has run yet.\n');
  await wait(LOG_POLL_MS, undefined, { signal }).catch(() => undefined);
  await tailWhenThere(context, request);
}
