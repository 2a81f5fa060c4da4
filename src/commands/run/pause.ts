import { EVERYTHING, resume as end, pause, pauseOf } from '../../queue/pauses.ts';
import { formatJson } from '../../report/json.ts';
import { pauseRecord } from '../../report/model/pauses.ts';
import { findPausables, findPaused } from '../../report/names.ts';
import { createClock } from '../../report/text/clock.ts';
import { describePaused, describeResume, nameOfPaused, startWithPaused } from '../../report/text/words.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { userName } from '../../system/process/user.ts';
import type { CommandContext } from '../shared/context.ts';
import { changeAsUser, withLog, withWritableLog, withWritableLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner pause`: what is not to be started for a while. */
export async function pauseCommand(context: CommandContext, given: Given<'pause'>): Promise<void> {
  const { name: words, for: forMs, fail, root, json } = given;
  const find = async () => await withLog(context, root, (site) => findPausables(site, words, context));
  const names = words.length === 0 ? [EVERYTHING] : await find();
  const pauses = names.map((name) => pauseOf(name, { forMs, fail, by: userName() }, context.now()));
  await withWritableLog(context, root, (store) => changeAsUser(store, (session) => pause(session, pauses)));
  if (json) return void context.stdout.write(formatPauses(pauses));
  for (const each of pauses) context.stdout.write(`${describeDone(context, each)}\n`);
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

/** `runner resume`: the end of pauses. */
export async function resumeCommand(context: CommandContext, given: Given<'resume'>): Promise<void> {
  const { name: words, root, json } = given;
  // Without names, a broken log is set aside as the writing one is opened.
  const names = words.length === 0 ? null : await withLog(context, root, (site) => findPaused(site, words, context));
  const resumed = await withWritableLogIfAny(context, root, (store) =>
    changeAsUser(store, (session) => end(session, names, context.now())),
  );
  const { ended, wider } = resumed ?? { ended: [], wider: [] };
  if (json) return void context.stdout.write(formatResumed(names ?? [], ended, wider));
  const lines = [...describeEnded(names ?? [], ended), ...wider.map((pause) => describeWider(context, pause))];
  context.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

function formatResumed(names: readonly string[], ended: readonly string[], wider: readonly Pause[]): string {
  const told = wider.map(pauseRecord.toJson);
  return formatJson({ resumed: ended, ...(names.length > 1 ? { pauses: told } : { pause: told[0] ?? null }) });
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
