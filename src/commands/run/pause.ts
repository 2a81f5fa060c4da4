import { EVERYTHING, resume as end, findPause, pause as record } from '../../queue/pauses.ts';
import { formatJson } from '../../report/json.ts';
import { pauseRecord, toPauses } from '../../report/model/pauses.ts';
import { findPausables, findPaused } from '../../report/names.ts';
import { createClock } from '../../report/text/clock.ts';
import { describePaused, describeResume, nameOfPaused, startWithPaused } from '../../report/text/words.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf, withLog, withWritableLog, withWritableLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner pause`: what is not to be started for a while. */
export async function pauseCommand(context: CommandContext, options: Given<'pause'>): Promise<void> {
  const at = context.now();
  // What is wrong with an option is told before names are looked for.
  toPauses([], options, at);
  const find = async () => await withLog(context, options.root, (site) => findPausables(site, options.name, context));
  const pauses = toPauses(options.name.length === 0 ? [EVERYTHING] : await find(), options, at);
  await withWritableLog(context, options.root, (store) =>
    store.transaction(async (session) => {
      for (const pause of pauses) await record(session, pause);
    }),
  );
  if (options.json) return void context.stdout.write(formatPauses(pauses));
  for (const pause of pauses) context.stdout.write(`${describeDone(context, pause)}\n`);
}

function formatPauses(pauses: readonly Pause[]): string {
  const told = pauses.map(pauseRecord.toJson);
  return formatJson(told.length > 1 ? { pauses: told } : (told[0] as object));
}

function describeDone(context: CommandContext, pause: Pause): string {
  const clock = createClock(context.now());
  const verb = pause.kind === 'fail-fast' ? 'fails when it is due,' : 'is paused';
  const what = `${startWithPaused(pause)} ${verb}`;
  const end = `\`${describeResume(pause)}\``;
  if (pause.until === null) return `${what} until ${end}.`;
  return `${what} until ${clock.dateTime(pause.until)} (${clock.zone}).\n${end} ends it sooner.`;
}

interface Resumed {
  /** What was to be resumed; none: all there is. */
  readonly names: readonly string[];
  readonly ended: readonly string[];
  /** The pauses that still keep these from running. */
  readonly wider: readonly Pause[];
}

/** `runner resume`: the end of pauses. */
export async function resumeCommand(
  context: CommandContext,
  { name: words, root, json }: Given<'resume'>,
): Promise<void> {
  const resumed = await resumeNames(context, rootOf(context, root), words);
  context.stdout.write(json ? formatResumed(resumed) : describe(context, resumed));
}

async function resumeNames(context: CommandContext, root: string, words: readonly string[]): Promise<Resumed> {
  // Without names, a broken log is set aside as the writing one is opened.
  const names = words.length === 0 ? [] : await withLog(context, root, (site) => findPaused(site, words, context));
  const resumed = await withWritableLogIfAny(context, root, async (store) => {
    const at = context.now();
    const pauses = await store.pauses.inForce(at);
    const ended = await store.transaction(async (session) => {
      const all = names.length === 0 ? [null] : names;
      const ended: string[] = [];
      for (const name of all) ended.push(...(await end(session, name, at)));
      return ended;
    });
    const rest = pauses.filter((pause) => !ended.includes(pause.name));
    return { names, ended, wider: [...new Set(names.flatMap((name) => findPause(rest, name) ?? []))] };
  });
  return resumed ?? { names, ended: [], wider: [] };
}

function formatResumed({ names, ended, wider }: Resumed): string {
  const told = wider.map(pauseRecord.toJson);
  return formatJson({ resumed: ended, ...(names.length > 1 ? { pauses: told } : { pause: told[0] ?? null }) });
}

function describe(context: CommandContext, { names, ended, wider }: Resumed): string {
  const lines = [...describeEnded(names, ended), ...wider.map((pause) => describeWider(context, pause))];
  return lines.map((line) => `${line}\n`).join('');
}

function describeEnded(names: readonly string[], ended: readonly string[]): string[] {
  const told = ended.map((name) => nameOfPaused({ name }));
  const resumed = told.length === 0 ? [] : [`Resumed: ${told.join(', ')}.`];
  const others = names
    .filter((name) => !ended.includes(name))
    .map((name) => `${startWithPaused({ name })} was not paused.`);
  return [...resumed, ...(names.length + told.length === 0 ? ['Nothing was paused.'] : others)];
}

function describeWider(context: CommandContext, pause: Pause): string {
  const what = describePaused(pause, '', createClock(context.now()));
  return `But ${what}: \`${describeResume(pause)}\` ends that.`;
}
