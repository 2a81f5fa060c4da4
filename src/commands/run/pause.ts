import { Command } from 'commander';
import type { Pause } from '../../store/statements/pauses.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';

interface PauseOptions extends CommonOptions {
  readonly for?: string;
  readonly fail?: true;
}

const PAUSE_EXAMPLES = `
Running scripts and jobs finish; nothing that is paused is started until the pause ends. Passes of a
paused tier are recorded as skipped. \`npx folder-runner run\` still starts a paused script. Pausing again
replaces the previous pause.

Examples:
  runner pause                            everything, until \`npx folder-runner resume\`
  runner pause hourly --for 2h            one tier, for two hours
  runner pause daily/backup --for 3d      one script
  runner pause daily/backup weekly        both, or neither if one of the names is wrong
  runner pause queue                      all jobs of the queue
  runner pause 'mail/*' --for 2h          its jobs with a matching name
  runner pause 'mail/*' --fail            matching jobs fail as soon as they are due`;

/** `runner pause`: what is not to be started for a while. */
export function pauseCommand(context: CommandContext): Command {
  const command = new Command('pause');
  return command
    .description('pause a tier, a script, jobs by name, or everything, until resumed')
    .argument('[name...]', 'tiers, <tier>/<script>, `queue`, or names of jobs (default: everything)')
    .option('--for <duration>', 'how long: 30m, 2h, 7d (default: until `npx folder-runner resume`)')
    .option('--fail', 'queue jobs only: fail due jobs instead of letting them wait')
    .option('--json', 'as JSON')
    .addHelpText('after', PAUSE_EXAMPLES)
    .action((names: string[]) => pauseNames(context, names, command.optsWithGlobals<PauseOptions>()));
}

async function pauseNames(context: CommandContext, words: readonly string[], options: PauseOptions): Promise<void> {
  const { EVERYTHING, pause: record } = await import('../../queue/pauses.ts');
  const { findPausables, toPauses } = await import('../../report/model/pausables.ts');
  const { withWritableLog } = await import('../shared/open.ts');
  const { scriptNameOf } = await import('../../discovery/find-script.ts');
  const root = rootOf(context, options.root);
  const names = words.map((word) => scriptNameOf(word, { cwd: context.cwd, root }));
  const at = context.now();
  // What is wrong with an option is told before names are looked for.
  toPauses([], options, at);
  const pauses = toPauses(names.length === 0 ? [EVERYTHING] : await findPausables(root, names), options, at);
  await withWritableLog(context, options.root, (store) =>
    store.transaction(async (session) => {
      for (const pause of pauses) await record(session, pause);
    }),
  );
  if (options.json) return void context.stdout.write(await formatPauses(pauses));
  for (const pause of pauses) context.stdout.write(`${await describeDone(context, pause)}\n`);
}

async function formatPauses(pauses: readonly Pause[]): Promise<string> {
  const { formatJson } = await import('../../report/json.ts');
  const { pauseRecord } = await import('../../report/model/pauses.ts');
  const told = pauses.map(pauseRecord.toJson);
  return formatJson(told.length > 1 ? { pauses: told } : (told[0] as object));
}

async function describeDone(context: CommandContext, pause: Pause): Promise<string> {
  const { createClock } = await import('../../report/text/clock.ts');
  const { startWithPaused, describeResume } = await import('../../report/text/words.ts');
  const clock = createClock(context.now());
  const verb = pause.kind === 'fail-fast' ? 'fails when it is due,' : 'is paused';
  const what = `${startWithPaused(pause)} ${verb}`;
  const end = `\`${describeResume(pause)}\``;
  if (pause.until === null) return `${what} until ${end}.`;
  return `${what} until ${clock.dateTime(pause.until)} (${clock.zone}).\n${end} ends it sooner.`;
}

const RESUME_EXAMPLES = `
The next call runs everything that waited meanwhile.

Examples:
  runner resume                 end all pauses
  runner resume hourly          end the pause of that tier; those of its scripts stay
  runner resume daily/backup    end the pause of that script
  runner resume weekly monthly  end both pauses
  runner resume 'mail/*'        end the pause of these jobs; \`queue\`: of the whole queue`;

/** `runner resume`: the end of pauses. */
export function resumeCommand(context: CommandContext): Command {
  const command = new Command('resume');
  return command
    .description('end a pause, or all of them')
    .argument('[name...]', 'the names given to `npx folder-runner pause` (default: all pauses)')
    .option('--json', 'as JSON')
    .addHelpText('after', RESUME_EXAMPLES)
    .action(async (names: string[]) => {
      const { root, json } = command.optsWithGlobals<CommonOptions>();
      const resumed = await resumeNames(context, root, names);
      context.stdout.write(json ? await formatResumed(resumed) : await describe(context, resumed));
    });
}

interface Resumed {
  /** What was to be resumed; none: all there is. */
  readonly names: readonly string[];
  readonly ended: readonly string[];
  /** The pauses that still keep these from running. */
  readonly wider: readonly Pause[];
}

async function resumeNames(
  context: CommandContext,
  rootOption: string | undefined,
  words: readonly string[],
): Promise<Resumed> {
  const root = rootOf(context, rootOption);
  const { scriptNameOf } = await import('../../discovery/find-script.ts');
  const { findPause, resume } = await import('../../queue/pauses.ts');
  const { findPausedNames } = await import('../../report/model/pausables.ts');
  const { withWritableLogIfAny } = await import('../shared/open.ts');
  const meant = words.map((word) => scriptNameOf(word, { cwd: context.cwd, root }));
  const resumed = await withWritableLogIfAny(context, rootOption, async (store) => {
    const at = context.now();
    const pauses = await store.pauses.inForce(at);
    const names = await findPausedNames(root, meant, pauses);
    const ended = await store.transaction(async (session) => {
      const all = names.length === 0 ? [null] : names;
      const ended: string[] = [];
      for (const name of all) ended.push(...(await resume(session, name, at)));
      return ended;
    });
    const rest = pauses.filter((pause) => !ended.includes(pause.name));
    return { names, ended, wider: [...new Set(names.flatMap((name) => findPause(rest, name) ?? []))] };
  });
  return resumed ?? { names: await findPausedNames(root, meant, []), ended: [], wider: [] };
}

async function formatResumed({ names, ended, wider }: Resumed): Promise<string> {
  const { formatJson } = await import('../../report/json.ts');
  const { pauseRecord } = await import('../../report/model/pauses.ts');
  const told = wider.map(pauseRecord.toJson);
  return formatJson({ resumed: ended, ...(names.length > 1 ? { pauses: told } : { pause: told[0] ?? null }) });
}

async function describe(context: CommandContext, { names, ended, wider }: Resumed): Promise<string> {
  const lines = await describeEnded(names, ended);
  for (const pause of wider) lines.push(await describeWider(context, pause));
  return lines.map((line) => `${line}\n`).join('');
}

async function describeEnded(names: readonly string[], ended: readonly string[]): Promise<string[]> {
  const { nameOfPaused, startWithPaused } = await import('../../report/text/words.ts');
  const told = ended.map((name) => nameOfPaused({ name }));
  const resumed = told.length === 0 ? [] : [`Resumed: ${told.join(', ')}.`];
  const others = names
    .filter((name) => !ended.includes(name))
    .map((name) => `${startWithPaused({ name })} was not paused.`);
  return [...resumed, ...(names.length + told.length === 0 ? ['Nothing was paused.'] : others)];
}

async function describeWider(context: CommandContext, pause: Pause): Promise<string> {
  const { createClock } = await import('../../report/text/clock.ts');
  const { describePaused, describeResume: command } = await import('../../report/text/words.ts');
  const what = describePaused(pause, '', createClock(context.now()));
  return `But ${what}: \`${command(pause)}\` ends that.`;
}
