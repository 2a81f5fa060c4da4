import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { hasLog } from '../../store/shared/which-log.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { CommandContext } from '../shared/context.ts';
import { withLog } from '../shared/open.ts';

interface TailOptions {
  readonly follow?: true;
  readonly root?: string;
}

const LOG_POLL_MS = 500;

/** 128 + SIGINT, as shells do. */
const EXIT_INTERRUPTED = 130;

const EXAMPLES = `
Examples:
  runner tail hourly/clean-tmp       the output of its newest run, live while it runs
  runner tail hourly/clean-tmp -f    follow it until it ends, or wait for its next run

The output goes to stdout, notes about the run go to stderr.`;

/** `runner tail`: the output of a script's newest run. */
export function tailCommand(context: CommandContext): Command {
  const command = new Command('tail');
  return command
    .description("show the output of a script's newest run, live while it runs")
    .argument('<script>', 'the name of the script, or its file')
    .option(
      '-f, --follow',
      'follow until the run ends; if none is running, show how the last one ended and wait for the next',
    )
    .addHelpText('after', EXAMPLES)
    .action((script: string) => tail(context, script, command.optsWithGlobals<TailOptions>()));
}

async function tail(context: CommandContext, word: string, options: TailOptions): Promise<void> {
  const interrupt = new AbortController();
  const stop = (): void => interrupt.abort();
  process.once('SIGINT', stop);
  try {
    const note = createNote(context.stderr);
    await tailWhenThere(context, { word, options, signal: interrupt.signal, note });
  } finally {
    process.off('SIGINT', stop);
  }
  if (interrupt.signal.aborted) context.setExitCode(EXIT_INTERRUPTED);
}

interface TailRequest {
  readonly word: string;
  readonly options: TailOptions;
  readonly signal: AbortSignal;
  readonly note: (text: string) => void;
}

/** Where nothing has ever run there is no log to look into: following waits for that too. */
async function tailWhenThere(context: CommandContext, request: TailRequest): Promise<void> {
  const { word, options, signal, note } = request;
  const isFollowing = options.follow === true;
  const { scriptNameOf } = await import('../../discovery/find-script.ts');
  const { findNames, findRecordedScript } = await import('../../report/model/runs/history.ts');
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const { describeTailWait, tailScript } = await import('../../report/model/runs/output.ts');
  const output = openTextOutput(context.stdout);
  const isDone = await withLog(context, options.root, async (site) => {
    const { root, state, store } = site;
    const log = await site.view();
    const script = findRecordedScript(scriptNameOf(word, { cwd: context.cwd, root }), await findNames(site));
    if (store !== null || !isFollowing) {
      await tailScript({ ...log, script, isFollowing, signal, output, note });
      return true;
    }
    note(describeTailWait(script, false));
    await waitForLog(state, signal);
    return signal.aborted;
  });
  if (!isDone) await tailWhenThere(context, request);
}

/** Waiting for a log and then for a run is waiting for one thing: it is said once. */
function createNote(stream: NodeJS.WritableStream): (text: string) => void {
  let last = '';
  return (text) => {
    if (text !== last) stream.write(`${text}\n`);
    last = text;
  };
}

async function waitForLog(state: StateFolder, signal: AbortSignal): Promise<void> {
  do {
    await wait(LOG_POLL_MS, undefined, { signal }).catch(() => undefined);
  } while (!signal.aborted && !hasLog(state));
}
