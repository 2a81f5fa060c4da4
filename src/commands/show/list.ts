import { Command } from 'commander';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { discoverScripts, readPauses, rootOf } from '../shared/open.ts';

const EXAMPLES = `
Examples:
  runner list           each tier with its scripts, then ignored files with the reason
  runner list --json    for programs; docs/json.md names the keys

A refused script is skipped until you fix the problem shown.`;

/** `runner list`: what is in `jobs/`. */
export function listCommand(context: CommandContext): Command {
  const command = new Command('list');
  return command
    .description('show every tier, its scripts with their options, and ignored files')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action(() => list(context, command.optsWithGlobals<CommonOptions>()));
}

async function list(context: CommandContext, options: CommonOptions): Promise<void> {
  const root = rootOf(context, options.root);
  const discovery = await discoverScripts(root);
  const pauses = await readPauses(context, root);
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const output = openTextOutput(context.stdout);
  if (options.json) {
    const { discoveryToJson, formatJson } = await import('../../report/json.ts');
    await output.write(formatJson(discoveryToJson(discovery, pauses)));
    return;
  }
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderList } = await import('../../report/terminal/overview.ts');
  await output.write(renderList(discovery, root, createScreen(context), pauses));
}
