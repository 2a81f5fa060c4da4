import { Command } from 'commander';
import type { IncidentRow } from '../../store/schema.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import type { Store } from '../../store/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { shellWord } from '../../system/base/values.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { print, rootOf, withLog, withWritableLog, withWritableLogIfAny } from '../shared/open.ts';

const INCIDENTS_HELP = `
An incident opens when a script or handler fails for good, or when a check finds a problem. It is over
when a run succeeds or the check finds nothing. For a handler, it is over when no job has failed for an
hour and one has succeeded since. It also ends when its script, handler or tier is gone.

Examples:
  runner incidents           what is wrong now
  runner incidents close 12  incident 12 is over
  runner incidents --all     also the last 100 that are over
  runner incidents --json    for programs; docs/json.md names the keys`;

interface IncidentsOptions extends CommonOptions {
  readonly all?: true;
}

/** `runner incidents`: what is wrong, and since when. */
export function incidentsCommand(context: CommandContext): Command {
  const command = new Command('incidents');
  return command
    .description('show what is wrong, since when and how often')
    .option('--all', 'also incidents that are over')
    .option('--json', 'as JSON')
    .addHelpText('after', INCIDENTS_HELP)
    .addCommand(closeCommand(context))
    .action(() => listIncidents(context, command.optsWithGlobals<IncidentsOptions>()));
}

const CLOSE_HELP = `
Whoever was told of the incident is told once that it was closed. If the script fails again, or the check
still finds the problem, a new incident opens.

Examples:
  runner incidents close 12
  runner incidents close 12 13 14`;

/** `runner incidents close`: an incident is over because somebody says so. */
function closeCommand(context: CommandContext): Command {
  const command = new Command('close');
  return command
    .description('end incidents by hand')
    .argument('<number...>', 'their numbers; `npx folder-runner incidents` lists them')
    .option('--json', 'as JSON')
    .addHelpText('after', CLOSE_HELP)
    .action((words: string[]) => close(context, words, command.optsWithGlobals<CommonOptions>()));
}

async function close(context: CommandContext, words: readonly string[], { root, json }: CommonOptions): Promise<void> {
  const { closeIncidents, noSuchIncident } = await import('../../monitor/alert/incidents.ts');
  const ids = words.map(readIncidentNumber);
  const closed = await withWritableLogIfAny(context, root, (store) =>
    store.transaction((session) => closeIncidents(session, ids, context.now())),
  );
  if (closed === null) throw noSuchIncident(words[0] ?? '');
  if (json) {
    const { formatJson } = await import('../../report/json.ts');
    const { incidentRecord } = await import('../../report/model/incidents.ts');
    return void context.stdout.write(formatJson({ closed: closed.map(incidentRecord.toJson) }));
  }
  const { printableLine } = await import('../../system/base/text.ts');
  for (const { id, subject } of closed) context.stdout.write(`Closed: #${id} ${printableLine(subject)}.\n`);
}

function readIncidentNumber(word: string): number {
  const id = Number(word);
  if (/^\d+$/.test(word) && Number.isSafeInteger(id)) return id;
  throw new UsageError(
    `close expects numbers of incidents, found ${JSON.stringify(word)}; \`npx folder-runner incidents\` lists them.`,
  );
}

const MOST_LISTED = 100;

async function listIncidents(context: CommandContext, { root, json, all }: IncidentsOptions): Promise<void> {
  const { incidents, mutes } = await withLog(context, root, async ({ root: place, store }) => ({
    incidents: store === null ? [] : await readIncidents(store, { root: place, nowMs: context.now() }, all === true),
    mutes: store === null ? [] : await incidentsOf(store.statements).mutes(context.now()),
  }));
  if (json) {
    const { formatJson } = await import('../../report/json.ts');
    const { incidentRecord } = await import('../../report/model/incidents.ts');
    const { muteRecord } = await import('../../report/model/pauses.ts');
    const told = { incidents: incidents.map(incidentRecord.toJson), mutes: mutes.map(muteRecord.toJson) };
    return void context.stdout.write(formatJson(told));
  }
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderIncidents } = await import('../../report/terminal/incidents.ts');
  await print(context, renderIncidents(incidents, mutes, createScreen(context)));
}

/** What is not over comes first, whatever else there was since. */
async function readIncidents(
  store: Store,
  place: { readonly root: string; readonly nowMs: number },
  isAll: boolean,
): Promise<readonly IncidentRow[]> {
  const { foresee } = await import('../../monitor/alert/incidents.ts');
  const isOver = ({ recovered_at }: IncidentRow): boolean => recovered_at !== null;
  const current = await foresee(store, place, await incidentsOf(store.statements).current());
  const open = current.filter((incident) => !isOver(incident));
  if (!isAll) return open;
  const listed = (await incidentsOf(store.statements).list(MOST_LISTED + current.length)).filter(isOver);
  return [...open, ...[...current.filter(isOver), ...listed].slice(0, MOST_LISTED)];
}

const ACKNOWLEDGE_HELP = `
Acknowledging ends the daily reminders. You are still told when the incident is over, and of new errors.

Examples:
  runner acknowledge 12             the incident with that number; \`npx folder-runner incidents\` lists them
  runner acknowledge hourly/import  all open incidents of that script
  runner acknowledge mail/welcome   all open incidents of that handler`;

/** `runner acknowledge`: no more reminders of an incident. */
export function acknowledgeCommand(context: CommandContext): Command {
  const command = new Command('acknowledge');
  return command
    .description('end the daily reminders of an incident')
    .argument('<incident>', 'its number, or the script, handler, tier or other subject it is about')
    .option('--json', 'as JSON')
    .addHelpText('after', ACKNOWLEDGE_HELP)
    .action((word: string) => acknowledge(context, word, command.optsWithGlobals<CommonOptions>()));
}

async function acknowledge(context: CommandContext, asked: string, { root, json }: CommonOptions): Promise<void> {
  const { acknowledgeIncidents, noSuchIncident } = await import('../../monitor/alert/incidents.ts');
  const [word = asked] = await namesOf(context, root, [asked]);
  const incidents = await withWritableLogIfAny(context, root, (store) =>
    store.transaction((session) => acknowledgeIncidents(session, word, context.now())),
  );
  if (incidents === null || incidents.length === 0) throw noSuchIncident(word);
  if (json) {
    const { formatJson } = await import('../../report/json.ts');
    const { incidentRecord } = await import('../../report/model/incidents.ts');
    return void context.stdout.write(formatJson({ acknowledged: incidents.map(incidentRecord.toJson) }));
  }
  const { printableLine } = await import('../../system/base/text.ts');
  for (const { id, subject } of incidents) {
    context.stdout.write(`Acknowledged: #${id} ${printableLine(subject)}. You will still be told when it is over.\n`);
  }
}

const MUTE_HELP = `
Incidents still open and end while they are muted; you are told the rest when the mute ends.
Scripts and jobs still run: \`npx folder-runner pause\` stops them. Muting again replaces the previous mute.

Examples:
  runner mute hourly/import            until \`npx folder-runner unmute hourly/import\`
  runner mute hourly --for 2h          a whole tier, for two hours
  runner mute 'mail/*' --for 1d        handlers with a matching name
  runner mute '*' --for 30m            everything, during a deploy`;

interface MuteOptions extends CommonOptions {
  readonly for?: string;
}

/** `runner mute`: of what nobody is told for a while. */
export function muteCommand(context: CommandContext): Command {
  const command = new Command('mute');
  return command
    .description('silence incidents of a script, handler or tier for a while')
    .argument('<pattern...>', 'names: hourly/import, or patterns such as "mail/*"')
    .option('--for <duration>', 'how long: 30m, 2h, 7d (default: until `npx folder-runner unmute`)')
    .option('--json', 'as JSON')
    .addHelpText('after', MUTE_HELP)
    .action((patterns: string[]) => mute(context, patterns, command.optsWithGlobals<MuteOptions>()));
}

async function mute(context: CommandContext, words: readonly string[], options: MuteOptions): Promise<void> {
  const { readMutes, setMutes } = await import('../../monitor/alert/incidents.ts');
  const at = context.now();
  const mutes = readMutes(await namesOf(context, options.root, words), options.for, at);
  await refuseUnknownNames(context, options.root, mutes);
  await withWritableLog(context, options.root, (store) => store.transaction((session) => setMutes(session, mutes)));
  if (options.json) {
    const { formatJson } = await import('../../report/json.ts');
    const { muteRecord } = await import('../../report/model/pauses.ts');
    return void context.stdout.write(formatJson({ mutes: mutes.map(muteRecord.toJson) }));
  }
  const { createClock } = await import('../../report/text/clock.ts');
  const { printableLine } = await import('../../system/base/text.ts');
  const clock = createClock(at);
  const until = mutes[0]?.until ?? null;
  for (const { name } of mutes) {
    const unmute = `\`npx folder-runner unmute ${shellWord(printableLine(name))}\``;
    const end = until === null ? unmute : `${clock.dateTime(until)} (${clock.zone})`;
    context.stdout.write(`Incidents of ${printableLine(name)} are muted until ${end}.\n`);
  }
}

async function refuseUnknownNames(
  context: CommandContext,
  root: string | undefined,
  mutes: readonly { readonly name: string }[],
): Promise<void> {
  const { refuseUnknownMutes } = await import('../../report/model/mutables.ts');
  const names = mutes.map(({ name }) => name);
  await withLog(context, root, (site) => refuseUnknownMutes(site, names));
}

/** Of scripts that are named by their files, the names; any other word as it is. */
async function namesOf(context: CommandContext, root: string | undefined, words: readonly string[]): Promise<string[]> {
  const { scriptNameOf } = await import('../../discovery/find-script.ts');
  const place = { cwd: context.cwd, root: rootOf(context, root) };
  return words.map((word) => scriptNameOf(word, place));
}

const UNMUTE_HELP = `
The next pass reports what was held back in the meantime.

Examples:
  runner unmute hourly/import    the pattern given to \`npx folder-runner mute\`
  runner unmute                  end all mutes`;

/** `runner unmute`: the end of mutes. */
export function unmuteCommand(context: CommandContext): Command {
  const command = new Command('unmute');
  return command
    .description('end a mute, or all of them')
    .argument('[pattern...]', 'the patterns given to `npx folder-runner mute` (default: all)')
    .option('--json', 'as JSON')
    .addHelpText('after', UNMUTE_HELP)
    .action((patterns: string[]) => unmute(context, patterns, command.optsWithGlobals<CommonOptions>()));
}

async function unmute(context: CommandContext, words: readonly string[], { root, json }: CommonOptions): Promise<void> {
  const { endMutes } = await import('../../monitor/alert/incidents.ts');
  const meant = words.length === 0 ? null : await namesOf(context, root, words);
  const ended = await withWritableLogIfAny(context, root, (store) =>
    store.transaction((session) => endMutes(session, meant, context.now())),
  );
  const names = (ended ?? []).map(({ name }) => name);
  if (json) {
    const { formatJson } = await import('../../report/json.ts');
    return void context.stdout.write(formatJson({ unmuted: names }));
  }
  const { printableLine } = await import('../../system/base/text.ts');
  const told = names.length === 0 ? [] : [`Unmuted: ${names.map(printableLine).join(', ')}.`];
  const others = (meant ?? []).filter((name) => !names.includes(name));
  const lines = [...told, ...others.map((pattern) => `${printableLine(pattern)} was not muted.`)];
  if (lines.length === 0) lines.push('Nothing was muted.');
  context.stdout.write(`${lines.join('\n')}\n`);
}
