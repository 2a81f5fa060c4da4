import { resolve } from 'node:path';
import { Command } from 'commander';
import type { RootEntry } from '../../hosting/init.ts';
import type { CommandContext } from '../shared/context.ts';

const EXAMPLES = `
Examples:
  runner init             in the current folder
  runner init ~/runner    in another one, which is created if it is missing

Existing files are never changed or overwritten.`;

const NEXT_STEPS = `
Next:
  1. Drop a script into jobs/15min, jobs/hourly or jobs/daily; what each example needs is at its top.
  2. npx runner hourly            runs a tier, as cron will
  3. npx runner report            shows what ran
  4. npx runner cron --install    lets cron run the tiers (or --print, to paste the lines)
`;

interface InitOptions {
  readonly root?: string;
  readonly force?: true;
}

/** `runner init`: a root to start from. */
export function initCommand(context: CommandContext): Command {
  const command = new Command('init');
  return command
    .description(
      'create jobs/15min, jobs/hourly, jobs/daily and jobs/queue with one small example each',
    )
    .argument('[folder]', 'where (default: --root, RUNNER_ROOT or the current folder)')
    .option('--force', 'also in a folder that a web server serves')
    .addHelpText('after', EXAMPLES)
    .action((folder: string | undefined) => {
      const options = command.optsWithGlobals<InitOptions>();
      return initRoot(context, folder ?? options.root, options.force === true);
    });
}

async function initRoot(
  context: CommandContext,
  folder: string | undefined,
  isForced: boolean,
): Promise<void> {
  const root = resolve(context.cwd, folder ?? (context.env.RUNNER_ROOT || '.'));
  const { startRoot } = await import('../../hosting/init.ts');
  const { entries, webRoot } = startRoot(root, context.distFolder, isForced);
  context.stdout.write(`${root}\n${entries.map(entryLine).join('')}`);
  if (webRoot !== null) context.stderr.write(webRootWarning(root, webRoot));
  context.stdout.write(NEXT_STEPS);
}

function entryLine({ path, state }: RootEntry): string {
  return `  ${state.padEnd(13)}  ${path}\n`;
}

function webRootWarning(root: string, webRoot: string): string {
  return (
    `\nDanger: ${root} is inside ${webRoot}, which a web server probably serves: anybody could ` +
    'read your scripts in jobs/ and their output in .runner/, passwords included. Passes are refused ' +
    `until you move the root beside ${webRoot}, or set allowUnsafe: true in runner.config.*; .htaccess ` +
    'files in both folders refuse visitors, which Apache and LiteSpeed obey and nginx does not.\n'
  );
}
