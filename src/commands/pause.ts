import { Command } from 'commander';
import { UsageError } from '../config/usage-error.ts';
import type { Pause } from '../queue/pauses.ts';
import type { CommandContext } from './command-context.ts';
import { rootOf } from './open-log.ts';

interface PauseOptions {
  readonly for?: string;
  readonly fail?: true;
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
What runs comes to its end; nothing of what is paused is started until the pause is over. Passes of
a paused tier are recorded as skipped. A script that is started by hand with \`runner run\` runs all
the same. Pausing again replaces the pause before.

Examples:
  runner pause                            everything, until \`runner resume\`
  runner pause hourly --for 2h            one tier, for two hours
  runner pause daily/backup --for 3d      one script
  runner pause queue                      all jobs of the queue
  runner pause 'mail/*' --for 2h          its jobs of these names; mail/welcome: of this one
  runner pause 'mail/*' --fail            a fuse: such jobs fail at once when they are due`;

/** `runner pause`: what is not to be started for a while. */
export function pauseCommand(context: CommandContext): Command {
  const command = new Command('pause');
  return command
    .description('start nothing of a tier, a script, a kind of jobs or at all, until resumed')
    .argument('[name]', 'a tier, <tier>/<script>, `queue`, or names of jobs (default: everything)')
    .option('--for <duration>', 'how long: 30m, 2h, 7d (default: until `runner resume`)')
    .option('--fail', 'of jobs of the queue: let what is due fail instead of waiting')
    .option('--json', 'as JSON')
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
  const { EVERYTHING } = await import('../queue/pause-names.ts');
  const { pause: record } = await import('../queue/pauses.ts');
  const { withWritableLog } = await import('./with-writable-log.ts');
  const root = rootOf(context, options.root);
  const createdAt = context.now();
  const until = await readEnd(options.for, createdAt);
  const name = word === undefined ? EVERYTHING : await findName(root, word);
  const kind = options.fail === true ? await readFuse(name) : ('pause' as const);
  const pause: Pause = { name, kind, until, createdAt };
  await withWritableLog(context, options.root, (db) => record(db, pause));
  context.stdout.write(
    options.json ? await formatPause(pause) : `${await describeDone(context, pause)}\n`,
  );
}

async function formatPause(pause: Pause): Promise<string> {
  const { formatJson } = await import('../report/json.ts');
  return formatJson((await import('../report/shared-json.ts')).pauseToJson(pause));
}

async function findName(root: string, word: string): Promise<string> {
  const { findPausable } = await import('./find-pausable.ts');
  const { readPausables } = await import('./read-pausables.ts');
  return findPausable(word, await readPausables(root));
}

/** Scripts have no queue that fills up while they wait: they need no fuse. */
async function readFuse(name: string): Promise<'fuse'> {
  const { EVERYTHING, pausedPattern } = await import('../queue/pause-names.ts');
  if (name !== EVERYTHING && pausedPattern(name) !== null) return 'fuse';
  throw new UsageError(
    "--fail expects names of jobs of the queue, such as `runner pause 'mail/*' --fail`, or " +
      '`runner pause queue --fail` for all of them.',
  );
}

async function readEnd(text: string | undefined, nowMs: number): Promise<number | null> {
  if (text === undefined) return null;
  const { expectedDuration, parseDurationMs } = await import('../config/duration.ts');
  const durationMs = parseDurationMs(text.trim());
  if (durationMs !== null) return nowMs + durationMs;
  throw new UsageError(
    `--for expects ${expectedDuration(text, '30m, 2h or 7d')}, found ${JSON.stringify(text)}; ` +
      'without it the pause lasts until `runner resume`.',
  );
}

async function describeDone(context: CommandContext, pause: Pause): Promise<string> {
  const { createClock } = await import('../report/clock.ts');
  const { nameOfPaused, resumeCommand } = await import('../report/pause-text.ts');
  const clock = createClock(context.now());
  const verb = pause.kind === 'fuse' ? 'fails when it is due,' : 'is paused';
  const what = `${nameOfPaused(pause)} ${verb}`;
  const end = `\`${resumeCommand(pause)}\``;
  if (pause.until === null) return `${what} until ${end}.`;
  return `${what} until ${clock.dateTime(pause.until)} (${clock.zone}).\n${end} ends it before.`;
}
