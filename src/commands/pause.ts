import { Command } from 'commander';
import { UsageError } from '../config/usage-error.ts';
import type { Pause } from '../queue/pauses.ts';
import type { CommandContext } from './command-context.ts';
import { rootOf } from './open-log.ts';

interface PauseOptions {
  readonly for?: string;
  readonly root?: string;
}

const EXAMPLES = `
What runs comes to its end; nothing of what is paused is started until the pause is over. Passes of
a paused tier are recorded as skipped. A script that is started by hand with \`runner run\` runs all
the same. Pausing again replaces the pause before.

Examples:
  runner pause                            everything, until \`runner resume\`
  runner pause hourly --for 2h            one tier, for two hours
  runner pause daily/backup --for 3d      one script`;

/** `runner pause`: what is not to be started for a while. */
export function pauseCommand(context: CommandContext): Command {
  const command = new Command('pause');
  return command
    .description('start nothing of a tier, a script or at all, for a while or until resumed')
    .argument('[name]', 'a tier, or <tier>/<script> (default: everything)')
    .option('--for <duration>', 'how long: 30m, 2h, 7d (default: until `runner resume`)')
    .addHelpText('after', EXAMPLES)
    .action((name: string | undefined) =>
      pauseName(context, name, command.optsWithGlobals<PauseOptions>()),
    );
}

async function pauseName(
  context: CommandContext,
  word: string | undefined,
  options: PauseOptions,
): Promise<void> {
  const { EVERYTHING, pause } = await import('../queue/pauses.ts');
  const root = rootOf(context, options.root);
  const createdAt = context.now();
  const until = await readEnd(options.for, createdAt);
  const name = word === undefined ? EVERYTHING : await findName(root, word);
  const { checkStateFolder } = await import('../config/check-place.ts');
  const { createStateFolder, stateFolderOf } = await import('../config/state-folder.ts');
  const { openStore } = await import('../store/open-store.ts');
  const state = stateFolderOf(root);
  checkStateFolder(root, state);
  createStateFolder(state);
  const store = await openStore(state);
  if (store.setAside !== null) context.stderr.write(`runner: ${store.setAside}\n`);
  try {
    await pause(store.db, { name, until, createdAt });
  } finally {
    await store.close();
  }
  context.stdout.write(`${await describeDone(context, { name, until, createdAt })}\n`);
}

async function findName(root: string, word: string): Promise<string> {
  const { findPausable } = await import('./find-pausable.ts');
  const { lookIntoJobs } = await import('./look-into-jobs.ts');
  return findPausable(word, (await lookIntoJobs(root)).discovery.tiers);
}

/** The last instant that a date can hold. */
const LAST_INSTANT = 8.64e15;

async function readEnd(text: string | undefined, nowMs: number): Promise<number | null> {
  if (text === undefined) return null;
  const { parseDurationMs } = await import('../config/duration.ts');
  const durationMs = parseDurationMs(text.trim());
  if (durationMs !== null && nowMs + durationMs <= LAST_INSTANT) return nowMs + durationMs;
  throw new UsageError(
    `--for expects a duration such as 30m, 2h or 7d, found ${JSON.stringify(text)}; ` +
      'without it the pause lasts until `runner resume`.',
  );
}

async function describeDone(context: CommandContext, pause: Pause): Promise<string> {
  const { createClock } = await import('../report/clock.ts');
  const { nameOfPaused, resumeCommand } = await import('../report/pause-text.ts');
  const clock = createClock(context.now());
  const what = `${nameOfPaused(pause)} is paused`;
  const end = `\`${resumeCommand(pause)}\``;
  if (pause.until === null) return `${what} until ${end}.`;
  return `${what} until ${clock.dateTime(pause.until)} (${clock.zone}).\n${end} ends it before.`;
}
