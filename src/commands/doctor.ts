import { Command } from 'commander';
import type { Checked } from '../hosting/doctor/examine.ts';
import type { CommandContext } from './command-context.ts';
import { rootOf } from './open-log.ts';

interface DoctorOptions {
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Looks at Node, the settings, the crontab (each line is tried in cron's bare environment), the clock, the
disk, locks, limits, permissions and the log, and changes nothing. Each finding comes with its cure:
  ok        as it should be
  note      good to know
  warning   works, and may fail one day
  problem   does not work

Examples:
  runner doctor             in the root, or above a script of it
  runner doctor --json      for programs; docs/json.md names the keys
  runner doctor | grep -A1 problem

Exit codes: 0 no problem, 1 a problem, 2 wrong use. More in docs/doctor.md.`;

/** `runner doctor`: is the place right that the runner runs in? */
export function doctorCommand(context: CommandContext): Command {
  const command = new Command('doctor');
  return command
    .description('check the place: Node, crontab, clock, disk, locks, limits, permissions, log')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action(() => examine(context, command.optsWithGlobals<DoctorOptions>()));
}

async function examine(context: CommandContext, options: DoctorOptions): Promise<void> {
  const { examinePlace } = await import('../hosting/doctor/examine.ts');
  const root = rootOf(context, options.root);
  const { env, distFolder, version, findWrongUse } = context;
  const nowMs = context.now();
  const findings = examinePlace({ root, env, distFolder, version, nowMs, findWrongUse });
  const all = options.json
    ? await writeJson(context, findings)
    : await writeText(context, root, findings);
  context.setExitCode(isWell(all) ? 0 : 1);
}

function isWell(all: readonly Checked[]): boolean {
  return all.every(({ status }) => status !== 'problem');
}

async function writeJson(
  context: CommandContext,
  findings: AsyncIterable<Checked>,
): Promise<readonly Checked[]> {
  const { openTextOutput } = await import('../report/text-output.ts');
  const { formatJson } = await import('../report/json.ts');
  const all: Checked[] = [];
  for await (const finding of findings) all.push(finding);
  await openTextOutput(context.stdout).write(formatJson({ ok: isWell(all), checks: all }));
  return all;
}

/** Line by line as they are found: some checks take a second. */
async function writeText(
  context: CommandContext,
  root: string,
  findings: AsyncIterable<Checked>,
): Promise<readonly Checked[]> {
  const { openTextOutput } = await import('../report/text-output.ts');
  const { createScreen } = await import('../report/terminal/screen.ts');
  const { renderFinding, renderPlace, renderSummary } = await import('./render-doctor.ts');
  const output = openTextOutput(context.stdout);
  const screen = createScreen(context);
  const all: Checked[] = [];
  await output.write(renderPlace(root, screen));
  for await (const finding of findings) {
    await output.write(renderFinding(finding, all.at(-1)?.name ?? null, screen));
    all.push(finding);
  }
  await output.write(renderSummary(all, screen));
  return all;
}
