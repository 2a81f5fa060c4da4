import { setTimeout as wait } from 'node:timers/promises';
import { describeTailWait, tailScript } from '../../report/model/runs/output.ts';
import { findScript } from '../../report/names.ts';
import { openTextOutput } from '../../report/terminal/screen.ts';
import { hasLog } from '../../store/shared/which-log.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { CommandContext } from '../shared/context.ts';
import { withLog } from '../shared/open.ts';
import type { Given } from '../table.ts';

const LOG_POLL_MS = 500;

/** 128 + SIGINT, as shells do. */
const EXIT_INTERRUPTED = 130;

/** `runner tail`: the output of a script's newest run. */
export async function tail(context: CommandContext, options: Given<'tail'>): Promise<void> {
  const interrupt = new AbortController();
  const stop = (): void => interrupt.abort();
  process.once('SIGINT', stop);
  try {
    const note = createNote(context.stderr);
    await tailWhenThere(context, { options, signal: interrupt.signal, note });
  } finally {
    process.off('SIGINT', stop);
  }
  if (interrupt.signal.aborted) context.setExitCode(EXIT_INTERRUPTED);
}

interface TailRequest {
  readonly options: Given<'tail'>;
  readonly signal: AbortSignal;
  readonly note: (text: string) => void;
}

/** Without a log nothing has ever run; `--follow` then waits for the first run. */
async function tailWhenThere(context: CommandContext, request: TailRequest): Promise<void> {
  const { options, signal, note } = request;
  const { script: word, follow: isFollowing = false } = options;
  const output = openTextOutput(context.stdout);
  const isDone = await withLog(context, options.root, async (site) => {
    const { state, store } = site;
    const log = await site.view();
    const script = await findScript(site, word, context);
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
