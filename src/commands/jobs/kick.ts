import { Command } from 'commander';
import type { CommandContext } from '../shared/context.ts';
import { readCount } from '../shared/options.ts';

interface KickOptions {
  readonly count?: string;
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Failed and buried jobs are queued again with all their tries, the earliest failures first. Only if
there are none with a matching name, delayed jobs become due at once.

Examples:
  runner kick 'mail/*'              all that have failed
  runner kick mail/welcome --count 10
  runner kick '*' --json            {"kicked":3}

\`runner job <id> kick\` kicks one.`;

/** `runner kick`: queues failed jobs again. */
export function kickCommand(context: CommandContext): Command {
  const command = new Command('kick');
  return command
    .description('queue failed jobs with these names again')
    .argument('<pattern...>', 'names: mail/welcome, or a pattern such as "mail/*"')
    .option('--count <n>', 'maximum number of jobs (default: all)')
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
