import { Command } from 'commander';
import type { Pause } from '../../store/contract.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';

interface PauseOptions extends CommonOptions {
  readonly for?: string;
  readonly fail?: true;
}

const PAUSE_EXAMPLES = `
Running scripts and jobs finish; nothing that is paused is started until the pause ends. Passes of a
paused tier are recorded as skipped. \`runner run\` starts a paused script all the same. Pausing again
replaces the previous pause.

Examples:
  runner pause                            everything, until \`runner resume\`
  runner pause hourly --for 2h            one tier, for two hours
  runner pause daily/backup --for 3d      one script
  runner pause queue                      all jobs of the queue
  runner pause 'mail/*' --for 2h          its jobs with a matching name
  runner pause 'mail/*' --fail            matching jobs fail as soon as they are due`;

/** `runner pause`: what is not to be started for a while. */
export function pauseCommand(context: CommandContext): Command {
  const command = new Command('pause');
  return command
    .description('pause a tier, a script, jobs by name, or everything, until resumed')
    .argument('[name]', 'a tier, <tier>/<script>, `queue`, or names of jobs (default: everything)')
    .option('--for <duration>', 'how long: 30m, 2h, 7d (default: until `runner resume`)')
    .option('--fail', 'queue jobs only: fail due jobs instead of letting them wait')
    .option('--json', 'as JSON')
    .addHelpText('after', PAUSE_EXAMPLES)
    .action((name: string | undefined) => pauseName(context, name, command.optsWithGlobals<PauseOptions>()));
}

async function pauseName(context: CommandContext, word: string | undefined, options: PauseOptions): Promise<void> {
  const { EVERYTHING, pause: record } = await import('../../queue/pauses.ts');
  const { withWritableLog } = await import('../shared/open.ts');
  const root = rootOf(context, options.root);
  const createdAt = context.now();
  const until = await readEnd(options.for, createdAt);
  const name = word === undefined ? EVERYTHING : await findName(root, word);
  const kind = options.fail === true ? await failFast(name) : ('pause' as const);
  const pause: Pause = { name, kind, until, createdAt };
  await withWritableLog(context, options.root, (store) => store.transaction((session) => record(session, pause)));
  context.stdout.write(options.json ? await formatPause(pause) : `${await describeDone(context, pause)}\n`);
}

async function formatPause(pause: Pause): Promise<string> {
  const { formatJson } = await import('../../report/json.ts');
  return formatJson((await import('../../report/json.ts')).pauseToJson(pause));
}

async function findName(root: string, word: string): Promise<string> {
  const { findPausable, readPausables } = await import('../shared/names.ts');
  return findPausable(word, await readPausables(root));
}

/** Scripts have no queue that fills up while they wait. */
async function failFast(name: string): Promise<'fail-fast'> {
  const { EVERYTHING, pausedPattern } = await import('../../queue/pauses.ts');
  if (name !== EVERYTHING && pausedPattern(name) !== null) return 'fail-fast';
  throw new UsageError(
    "--fail expects names of jobs of the queue, such as `runner pause 'mail/*' --fail`, or " +
      '`runner pause queue --fail` for all of them.',
  );
}

async function readEnd(text: string | undefined, nowMs: number): Promise<number | null> {
  if (text === undefined) return null;
  const { expectedDuration, parseDurationMs } = await import('../../settings/readers.ts');
  const durationMs = parseDurationMs(text.trim());
  if (durationMs !== null) return nowMs + durationMs;
  throw new UsageError(
    `--for expects ${expectedDuration(text, '30m, 2h or 7d')}, found ${JSON.stringify(text)}; ` +
      'without it the pause lasts until `runner resume`.',
  );
}

async function describeDone(context: CommandContext, pause: Pause): Promise<string> {
  const { createClock } = await import('../../report/text/format.ts');
  const { nameOfPaused, describeResume } = await import('../../report/text/words.ts');
  const clock = createClock(context.now());
  const verb = pause.kind === 'fail-fast' ? 'fails when it is due,' : 'is paused';
  const what = `${nameOfPaused(pause)} ${verb}`;
  const end = `\`${describeResume(pause)}\``;
  if (pause.until === null) return `${what} until ${end}.`;
  return `${what} until ${clock.dateTime(pause.until)} (${clock.zone}).\n${end} ends it before.`;
}

const RESUME_EXAMPLES = `
The next call runs everything that waited meanwhile.

Examples:
  runner resume                 end all pauses
  runner resume hourly          end the pause of that tier; those of its scripts stay
  runner resume daily/backup    end the pause of that script
  runner resume 'mail/*'        end the pause of these jobs; \`queue\`: of the whole queue`;

/** `runner resume`: the end of pauses. */
export function resumeCommand(context: CommandContext): Command {
  const command = new Command('resume');
  return command
    .description('end a pause, or all of them')
    .argument('[name]', 'the name given to `runner pause` (default: all pauses)')
    .option('--json', 'as JSON')
    .addHelpText('after', RESUME_EXAMPLES)
    .action(async (name: string | undefined) => {
      const { root, json } = command.optsWithGlobals<CommonOptions>();
      const resumed = await resumeName(context, root, name);
      context.stdout.write(json ? await formatResumed(resumed) : await describe(context, resumed));
    });
}

interface Resumed {
  /** What was to be resumed; null: all there is. */
  readonly name: string | null;
  readonly ended: readonly string[];
  /** The pause that still keeps it from running. */
  readonly wider: Pause | null;
}

async function resumeName(
  context: CommandContext,
  rootOption: string | undefined,
  word: string | undefined,
): Promise<Resumed> {
  const root = rootOf(context, rootOption);
  const nameAmong = async (pauses: readonly Pause[]): Promise<string | null> =>
    word === undefined ? null : await findPausedName(root, word, pauses);
  const { findPause, resume } = await import('../../queue/pauses.ts');
  const { withWritableLogIfAny } = await import('../shared/open.ts');
  const resumed = await withWritableLogIfAny(context, rootOption, async (store) => {
    const at = context.now();
    const pauses = await store.pauses.inForce(at);
    const name = await nameAmong(pauses);
    const ended = await store.transaction((session) => resume(session, name, at));
    const rest = pauses.filter((pause) => !ended.includes(pause.name));
    return { name, ended, wider: name === null ? null : findPause(rest, name) };
  });
  return resumed ?? { name: await nameAmong([]), ended: [], wider: null };
}

async function formatResumed({ ended, wider }: Resumed): Promise<string> {
  const { formatJson, pauseToJson } = await import('../../report/json.ts');
  return formatJson({ resumed: ended, pause: wider === null ? null : pauseToJson(wider) });
}

async function describe(context: CommandContext, { name, ended, wider }: Resumed): Promise<string> {
  const told = await describeEnded(name, ended);
  return wider === null ? `${told}\n` : `${told}\n${await describeWider(context, wider)}\n`;
}

/** Whatever is paused can be resumed, be it in `jobs/` or not. */
async function findPausedName(root: string, word: string, pauses: readonly Pause[]): Promise<string> {
  const { EVERYTHING, pauseNameOf } = await import('../../queue/pauses.ts');
  const names = pauses.map(({ name }) => name);
  const ways = [...(word === EVERYTHING ? [] : [word]), pauseNameOf(word)];
  const paused = ways.find((name) => names.includes(name));
  if (paused !== undefined) return paused;
  const { findPausable, readPausables } = await import('../shared/names.ts');
  return findPausable(word, await readPausables(root));
}

async function describeEnded(name: string | null, ended: readonly string[]): Promise<string> {
  const { nameOfPaused } = await import('../../report/text/words.ts');
  const names = ended.map((each) => nameOfPaused({ name: each }));
  if (names.length > 0) return `Resumed: ${names.join(', ')}.`;
  return name === null ? 'Nothing was paused.' : `${nameOfPaused({ name })} was not paused.`;
}

async function describeWider(context: CommandContext, pause: Pause): Promise<string> {
  const { createClock } = await import('../../report/text/format.ts');
  const { describePaused, describeResume: command } = await import('../../report/text/words.ts');
  const what = describePaused(pause, '', createClock(context.now()));
  return `But ${what}: \`${command(pause)}\` ends that.`;
}
