import { Command } from 'commander';
import type { Pause } from '../queue/pauses.ts';
import type { CommandContext } from './command-context.ts';
import { rootOf } from './open-log.ts';

interface ResumeOptions {
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
What waited meanwhile is run by the next call.

Examples:
  runner resume                 end all pauses
  runner resume hourly          end the pause of that tier; those of its scripts stay
  runner resume daily/backup    end the pause of that script
  runner resume 'mail/*'        end the pause of these jobs, as it was given; \`queue\`: of all`;

/** `runner resume`: the end of pauses. */
export function resumeCommand(context: CommandContext): Command {
  const command = new Command('resume');
  return command
    .description('end a pause, or all of them')
    .argument('[name]', 'what is paused, as it was given to `runner pause` (default: all pauses)')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action(async (name: string | undefined) => {
      const { root, json } = command.optsWithGlobals<ResumeOptions>();
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
    word === undefined ? null : await findName(root, word, pauses);
  const { findPause, resume, selectPauses } = await import('../queue/pauses.ts');
  const { withWritableLogIfAny } = await import('./with-writable-log.ts');
  const resumed = await withWritableLogIfAny(context, rootOption, async (db) => {
    const at = context.now();
    const pauses = await selectPauses(db, at);
    const name = await nameAmong(pauses);
    const ended = await resume(db, name, at);
    const rest = pauses.filter((pause) => !ended.includes(pause.name));
    return { name, ended, wider: name === null ? null : findPause(rest, name) };
  });
  return resumed ?? { name: await nameAmong([]), ended: [], wider: null };
}

async function formatResumed({ ended, wider }: Resumed): Promise<string> {
  const { formatJson } = await import('../report/json.ts');
  const { pauseToJson } = await import('../report/shared-json.ts');
  return formatJson({ resumed: ended, pause: wider === null ? null : pauseToJson(wider) });
}

async function describe(context: CommandContext, { name, ended, wider }: Resumed): Promise<string> {
  const told = await describeEnded(name, ended);
  return wider === null ? `${told}\n` : `${told}\n${await describeWider(context, wider)}\n`;
}

/** Whatever is paused can be resumed, be it in `jobs/` or not. */
async function findName(root: string, word: string, pauses: readonly Pause[]): Promise<string> {
  const { EVERYTHING, pauseNameOf } = await import('../queue/pause-names.ts');
  const names = pauses.map(({ name }) => name);
  const ways = [...(word === EVERYTHING ? [] : [word]), pauseNameOf(word)];
  const paused = ways.find((name) => names.includes(name));
  if (paused !== undefined) return paused;
  const { findPausable } = await import('./find-pausable.ts');
  const { readPausables } = await import('./read-pausables.ts');
  return findPausable(word, await readPausables(root));
}

async function describeEnded(name: string | null, ended: readonly string[]): Promise<string> {
  const { nameOfPaused } = await import('../report/pause-text.ts');
  const names = ended.map((each) => nameOfPaused({ name: each }));
  if (names.length > 0) return `Resumed: ${names.join(', ')}.`;
  return name === null ? 'Nothing was paused.' : `${nameOfPaused({ name })} was not paused.`;
}

async function describeWider(context: CommandContext, pause: Pause): Promise<string> {
  const { createClock } = await import('../report/clock.ts');
  const { describePaused, resumeCommand: command } = await import('../report/pause-text.ts');
  const what = describePaused(pause, '', createClock(context.now()));
  return `But ${what}: \`${command(pause)}\` ends that.`;
}
