import { Command } from 'commander';
import type { CommandContext } from '../shared/context.ts';
import {
  lookIntoJobs,
  noteSpooled,
  type OpenLog,
  stateFoldersOf,
  withLogIfAny,
} from '../shared/open.ts';

interface WhyOptions {
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Examples:
  runner why hourly/clean-tmp        why it did or didn't run, and when it will
  runner why jobs/hourly/notes.txt   also for a file that is not a script
  runner why clean-tmp --json        for programs; docs/json.md names the keys

✔ fine · ! worth knowing · ✖ keeps it from running · → how to fix it`;

/** `runner why`: why a script did or didn't run. */
export function whyCommand(context: CommandContext): Command {
  const command = new Command('why');
  return command
    .description("explain why a script did or didn't run, and what to do about it")
    .argument('<script>', 'the name of a script, or a file in jobs/')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((word: string) => tellWhy(context, word, command.optsWithGlobals<WhyOptions>()));
}

async function tellWhy(context: CommandContext, word: string, options: WhyOptions): Promise<void> {
  const text = await withLogIfAny(context, options.root, (log) =>
    describe(context, log, word, options),
  );
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  await openTextOutput(context.stdout).write(text);
}

async function describe(
  context: CommandContext,
  { root, pauses, problem: logProblem, view }: OpenLog,
  word: string,
  options: WhyOptions,
): Promise<string> {
  const { readWhy } = await import('../../report/why/why.ts');
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const screen = createScreen(context);
  const { clock, nowMs } = screen;
  const found = await lookIntoJobs(root);
  await noteSpooled(context, root);
  const place = { word, cwd: context.cwd, root, states: stateFoldersOf(root), clock, nowMs };
  const why = await readWhy(await view(), { ...found, ...place, pauses, logProblem });
  if (options.json) return (await import('../../report/json.ts')).formatJson(why);
  return (await import('../../report/terminal/why.ts')).renderWhy(why, screen);
}
