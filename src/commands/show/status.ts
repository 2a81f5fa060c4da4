import { Command } from 'commander';
import type { CommandContext } from '../shared/context.ts';
import { type OpenLog, stateFoldersOf, withLogIfAny } from '../shared/open.ts';

interface StatusOptions {
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Examples:
  runner status           what is running, waiting and paused, and when each tier is called next
  runner status --json    for programs; docs/json.md names the keys

The next call of a tier is estimated from its last one: a crontab calls at the same minute of each
period. A pass started without a terminal counts as started by cron.`;

/** `runner status`: how things stand now. */
export function statusCommand(context: CommandContext): Command {
  const command = new Command('status');
  return command
    .description('show what is running, waiting and paused, and what comes next')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action(() => showStatus(context, command.optsWithGlobals<StatusOptions>()));
}

async function showStatus(context: CommandContext, options: StatusOptions): Promise<void> {
  const text = await withLogIfAny(context, options.root, (log) => describe(context, log, options));
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  await openTextOutput(context.stdout).write(text);
}

async function describe(
  context: CommandContext,
  { root, pauses, problem, view }: OpenLog,
  options: StatusOptions,
): Promise<string> {
  const { tierNames } = await import('../../discovery/jobs-folder.ts');
  const { listHandlerNames } = await import('../shared/names.ts');
  const { readStatus } = await import('../../report/model/status.ts');
  const status = await readStatus(await view(), {
    states: stateFoldersOf(root),
    tiers: tierNames(root),
    handlers: await listHandlerNames(root, (problem) => tellWrongSettings(context, problem)),
    pauses,
    nowMs: context.now(),
    isLogUnread: problem !== null,
  });
  if (options.json) {
    const { formatJson, statusToJson } = await import('../../report/json.ts');
    return formatJson(statusToJson(status));
  }
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderStatus } = await import('../../report/terminal/status.ts');
  return renderStatus(status, createScreen(context));
}

/** Without this, what waits would look as if it were only a matter of time. */
function tellWrongSettings({ stderr }: CommandContext, problem: string): void {
  stderr.write(`Note: no call starts anything until the settings are fixed. ${problem}\n`);
}
