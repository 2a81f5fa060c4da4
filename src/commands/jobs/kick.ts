import { Command } from 'commander';
import type { CommandContext } from '../shared/context.ts';
import { readCount } from '../shared/options.ts';

interface KickOptions {
  readonly count?: string;
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Jobs that have failed or were buried are queued again, with all their tries, those first that failed
first. Only if there are none of these names, those that wait for a later time become due at once.

Examples:
  runner kick 'mail/*'              all that have failed
  runner kick mail/welcome --count 10
  runner kick '*' --json            {"kicked":3}

\`runner job <id> kick\` kicks one.`;

/** `runner kick`: queues failed jobs again. */
export function kickCommand(context: CommandContext): Command {
  const command = new Command('kick');
  return command
    .description('queue failed jobs of these names again')
    .argument('<pattern...>', 'names: mail/welcome, or a pattern such as "mail/*"')
    .option('--count <n>', 'at most so many (default: all)')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((patterns: string[]) =>
      kick(context, patterns, command.optsWithGlobals<KickOptions>()),
    );
}

async function kick(
  context: CommandContext,
  patterns: readonly string[],
  options: KickOptions,
): Promise<void> {
  const count = readCount('--count', options.count) ?? Number.MAX_SAFE_INTEGER;
  const { withQueue } = await import('../shared/with-queue.ts');
  const kicked = await withQueue(context, options.root, (queue) => queue.kickMany(patterns, count));
  const { countOf } = await import('../../report/text/format.ts');
  const told = options.json
    ? JSON.stringify({ kicked })
    : `Kicked ${countOf(kicked, 'job')}${kicked === 0 ? hintFor(patterns) : '.'}`;
  context.stdout.write(`${told}\n`);
}

/** All other verbs take numbers. */
function hintFor(patterns: readonly string[]): string {
  const id = patterns.find((pattern) => /^\d+$/.test(pattern));
  return id === undefined ? '.' : `; \`runner job ${id} kick\` kicks the job of that number.`;
}
