import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, parse } from 'node:path';
import { parseTierPeriod, tierPeriodMs } from '../../../schedule/period.ts';
import { shortestGapMs } from '../../../schedule/repeat/calendar.ts';
import { parseSchedule } from '../../../schedule/repeat/grammar/parse.ts';
import { isExecName } from '../../../system/base/exec-name.ts';
import { DAY_MS } from '../../../system/base/values.ts';
import { machineZone } from '../../../system/base/zone.ts';
import { callsScript, nameIn, programName } from '../own-line.ts';
import { knowsRandom, type Program, readShellCommand, readWaits, type ShellCommand, scriptFileOf } from './command.ts';
import { describeSeconds, noteJob } from './notes.ts';
import { type CrontabFormat, type CrontabJob, type MalformedLine, readLines } from './read.ts';
import { chooseTier, chooseTimeout, composeScript, runsInEachPass, splitInput } from './script.ts';

/** The plan for one line. */
export interface PlannedLine {
  /** Counted from 1. */
  readonly line: number;
  readonly command: string | null;
  /** Null: the line is left as it is, and the notes say why. */
  readonly tier: string | null;
  /** `jobs/15min/wp-cron.sh` */
  readonly script: string | null;
  readonly schedule: string | null;
  readonly notes: readonly string[];
}

/** A script that is to be written, and the line that it stands for. */
export interface PlannedScript {
  readonly path: string;
  readonly content: Buffer;
  /** The line without its end, in Latin-1. */
  readonly text: string;
  readonly line: number;
}

export interface ImportPlan {
  readonly lines: readonly PlannedLine[];
  readonly scripts: readonly PlannedScript[];
}

/** The owner of the crontab, and the root that its scripts go to. */
export interface ImportPlace {
  readonly root: string;
  readonly home: string;
  /** Variables that cron of this host adds to those of the crontab. */
  readonly given: ReadonlyMap<string, string>;
  /** The user that the scripts will run as. */
  readonly user: string;
  /** The `MAILTO` above the runner's own lines, which may stand elsewhere; undefined: none. */
  readonly mailTo: string | undefined;
}

/** Plans each line of a crontab. It changes nothing. */
export async function planImport(crontab: Buffer, format: CrontabFormat, place: ImportPlace): Promise<ImportPlan> {
  const all: Planned[] = [];
  const taken = { names: findNames(place.root), waits: new Map<string, number>() };
  for (const found of readLines(crontab.toString('latin1'), format)) all.push(await planLine(found, place, taken));
  return { lines: noteCompany(all), scripts: all.flatMap(({ script }) => script ?? []) };
}

/** The scripts of a tier run one after another, which lines of a crontab do not: one that takes long delays others. */
function noteCompany(all: readonly Planned[]): PlannedLine[] {
  return all.map(({ planned, gapMs }) => {
    const { tier, notes } = planned;
    if (tier === null || runsInEachPass(tier, gapMs)) return planned;
    const others = all.filter((each) => each.planned !== planned && each.planned.tier === tier);
    if (others.length === 0) return planned;
    const isFrequent = others.some((each) => runsInEachPass(tier, each.gapMs));
    return { ...planned, notes: [...notes, describeCompany(tier, isFrequent)] };
  });
}

function describeCompany(tier: string, isFrequent: boolean): string {
  const others = isFrequent
    ? `The more frequent scripts of ${tier} wait`
    : `Other scripts of ${tier} that are due wait`;
  return `${others} while it runs: if it takes long, move it to a tier such as ${OTHER_TIER}.`;
}

/** The tier for few scripts of an import. */
const OTHER_TIER = '30min';

/** The names of all scripts: one that is in another tier too would be hard to tell from it. */
function findNames(root: string): Set<string> {
  const jobs = join(root, 'jobs');
  if (!existsSync(jobs)) return new Set();
  const entries = readdirSync(jobs, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return new Set(entries.flatMap(({ name }) => readdirSync(join(jobs, name)).map((file) => parse(file).name)));
}

interface Planned {
  readonly planned: PlannedLine;
  readonly script: PlannedScript | null;
  /** Between two of its times; 0: it is left as it is. */
  readonly gapMs: number;
}

/** The names that the lines above have taken. */
interface Taken {
  readonly names: Set<string>;
  /** By tier: for how many seconds each of its passes waits. */
  readonly waits: Map<string, number>;
}

async function planLine(found: CrontabJob | MalformedLine, place: ImportPlace, taken: Taken): Promise<Planned> {
  if (found.kind === 'malformed') return leave(found, [`Cron does not understand this line: ${found.problem}.`]);
  const reason = reasonToLeave(found, place);
  if (reason !== null) return leave(found, [reason]);
  const timezone = zoneOf(found);
  const times = readTimes(found.times, timezone);
  if ('problem' in times) return leave(found, [times.problem]);

  const text = splitInput(found.command).command;
  const command = readShellCommand(text);
  const waits = readWaits(text, command, knowsRandom(found.variables.get('SHELL') ?? '/bin/sh'));
  const tier = chooseTier(found.times, { ...times, randomStartSeconds: waits.randomStart });
  const jam = runsInEachPass(tier, times.gapMs) ? addWait(taken.waits, tier, waits.fixed) : null;
  if (jam !== null) return leave(found, [jam]);
  const name = nameScript(command, (each) => taken.names.has(each));
  taken.names.add(name);
  const path = `jobs/${tier}/${name}.sh`;
  const timeout = chooseTimeout(times.gapMs, waits.fixed + waits.random);
  const isThereForWaits = tier !== chooseTier(found.times, { ...times, randomStartSeconds: 0 });
  const isThereForDay =
    tier !== chooseTier(found.times, { ...times, lastMinute: 0, randomStartSeconds: waits.randomStart });
  const content = composeScript(found, place.given, { schedule: found.times, timezone, timeout });
  return {
    planned: {
      ...describe(found),
      tier,
      script: path,
      schedule: found.times,
      notes: noteJob({ job: found, command, waits, tier, isThereForWaits, isThereForDay, timeout, ...place }).map(
        fromLatin1,
      ),
    },
    script: { path, content: Buffer.from(content, 'latin1'), text: found.text, line: found.line },
    gapMs: times.gapMs,
  };
}

/** Why the tier has no room for another wait; null: it has, and it is noted. */
function addWait(waits: Map<string, number>, tier: string, seconds: number): string | null {
  const sum = (waits.get(tier) ?? 0) + seconds;
  if (seconds === 0 || sum * 1000 < (tierPeriodMs(tier) ?? 0)) {
    waits.set(tier, sum);
    return null;
  }
  return (
    `It waits ${describeSeconds(seconds)}, and scripts of a tier run one after another: with it, a pass of ${tier} ` +
    'would still run when the next one is due.'
  );
}

/**
 * `TZ` is for commands: cron goes by its own zone all the same. Null: a pass has the same zone as cron, which it has not
 * where the settings name one.
 */
function zoneOf({ variables, atEnd }: CrontabJob): string | null {
  const zone = variables.get('CRON_TZ') ?? null;
  const isOwn = atEnd.has('TZ') || process.env.TZ !== undefined;
  return zone === null && isOwn ? (machineZone() ?? 'UTC') : zone;
}

interface Times {
  /** The shortest time between two of them. */
  readonly gapMs: number;
  /** The last one of a day, in minutes from midnight. */
  readonly lastMinute: number;
}

/** Reads the times of a line, or says why they are wrong. */
function readTimes(times: string, zone: string | null): Times | { readonly problem: string } {
  // One boot a day is more than most machines have.
  if (times === '@reboot') return { gapMs: DAY_MS, lastMinute: 0 };
  const parsed = parseSchedule(times, zone);
  if ('problem' in parsed) return parsed;
  const now = Date.now();
  return { gapMs: shortestGapMs(parsed.rule, now), lastMinute: lastMinuteOf(parsed.rule.times, zone, now) };
}

const DAY_MINUTES = 1440;

/** By the day of the line's own zone and by that of the machine, in which its command asks for the date. */
function lastMinuteOf(minutes: readonly number[], zone: string | null, now: number): number {
  const machine = machineZone() ?? 'UTC';
  const differences = zone === null ? [] : [now, now + 182 * DAY_MS].map((at) => minutesAhead(at, machine, zone));
  const all = [0, ...differences].flatMap((shift) => minutes.map((each) => (each + shift + DAY_MINUTES) % DAY_MINUTES));
  return Math.max(...all);
}

/** How much later it is in one zone than in another. */
function minutesAhead(at: number, zone: string, than: string): number {
  const wallOf = (timeZone: string) => Date.parse(`${new Date(at).toLocaleString('sv-SE', { timeZone })}Z`);
  return Math.round((wallOf(zone) - wallOf(than)) / 60_000) % DAY_MINUTES;
}

function leave(found: CrontabJob | MalformedLine, notes: readonly string[]): Planned {
  const planned = { ...describe(found), tier: null, script: null, schedule: null, notes: notes.map(fromLatin1) };
  return { planned, script: null, gapMs: 0 };
}

function describe(found: CrontabJob | MalformedLine): Pick<PlannedLine, 'line' | 'command'> {
  return { line: found.line, command: found.kind === 'job' ? fromLatin1(found.command) : null };
}

function fromLatin1(text: string): string {
  return Buffer.from(text, 'latin1').toString();
}

/** Whether this command is called, by its package, or by its name with what a crontab has it do. */
function callsRunner(command: string): boolean {
  if (callsScript(command)) return true;
  return readShellCommand(command).programs.some(({ name, args }) => {
    const words = [name, ...args];
    const at = words.findIndex((word) => programName.test(word));
    // `su me -c 'runner hourly'`
    if (at === -1 || (at > 0 && !LAUNCHERS.test(basename(name)))) return callsRunner(behindOption(args));
    const own = words.slice(at + 1);
    const called = nameIn(own) ?? '';
    const isPlain = ['due', 'work'].includes(called) || isExecName(called) || parseTierPeriod(called) !== null;
    return isPlain || /folder-runner/.test(words[at] ?? '') || own.some((word) => /^--root(?:=|$)/.test(word));
  });
}

const LAUNCHERS = /^(?:node(?:js)?|npx|npm|pnpm|pnpx|yarn|bunx?)$/;

function behindOption(args: readonly string[]): string {
  const index = args.findIndex((arg) => arg === '-c' || arg === '--command');
  return index === -1 ? '' : (args[index + 1] ?? '');
}

/** Workers of queues, which end only if an option says when. */
const ENDLESS = /\s(queue:(?:work|listen)|schedule:work|messenger:consume|jobs:work)\b/;
const ENDS = /(?:^|\s)(?:timeout\s|--(?:stop-when-empty|once|max-time|max-jobs|time-limit|limit)\b|-[lt]\s?\d)/;

interface Leaving extends Pick<ImportPlace, 'user'> {
  /** Whether a command may keep running: nothing waits for it. Default: no. */
  readonly mayEndLess?: true;
}

export function reasonToLeave({ command, manager, user }: CrontabJob, place: Leaving): string | null {
  const [, endless] = (place.mayEndLess || ENDS.test(command) ? null : ENDLESS.exec(command)) ?? [];
  if (endless !== undefined) {
    return (
      `${endless} keeps running: the other scripts of its tier would wait until its time limit ends it. To import it, ` +
      'give it an option that ends it, such as --stop-when-empty or --time-limit.'
    );
  }
  if (callsRunner(splitInput(command).command)) return 'It calls a runner already.';
  if (manager !== null) {
    return (
      `${manager} has written this line and may write it again; then the command would run twice. ` +
      'To import it, delete the comments around it that name the program, and keep that program from coming back.'
    );
  }
  if (user !== null && user !== place.user) {
    return `It runs as ${user}, but your scripts run as ${place.user}: import it as that user.`;
  }
  return null;
}

const LONGEST_NAME = 40;

/**
 * A name for the script of a crontab line, without extension: `wp-cron`, `artisan-schedule-run`, `mysqldump`.
 *
 * @param isTaken whether there is a script of that name already
 */
export function nameScript(command: ShellCommand, isTaken: (name: string) => boolean): string {
  const name = command.main === null ? '' : toName(wordsOf(command.main, command.folder ?? ''));
  const start = name === '' || RESERVED.test(name) ? `${name}-command`.replace(/^-/, '') : name;
  const candidates = [start, ...Array.from({ length: 999 }, (_, index) => `${start}-${index + 2}`)];
  return candidates.find((each) => !isTaken(each)) ?? start;
}

/** Files of these names are no scripts. */
const RESERVED = /^(?:readme|index)$/;

function toName(words: readonly string[]): string {
  const name = words
    .join('-')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-');
  return name.replace(/^-/, '').slice(0, LONGEST_NAME).replace(/-$/, '');
}

const FETCHERS = /^(?:wget|curl|lynx|links|fetch|GET)$/;

function wordsOf(program: Program, folder: string): string[] {
  const script = scriptFileOf(program);
  if (script !== null) return [...fileWords(script.file, folder), ...subcommand(script.file, script.rest)];
  const name = basename(program.name);
  const address = FETCHERS.test(name) ? program.args.map(parseAddress).find((url) => url !== null) : undefined;
  if (address) return [address.hostname, ...pageOf(address)];
  const module = /^python/.test(name) ? program.args[program.args.indexOf('-m') + 1] : undefined;
  if (module !== undefined && program.args.includes('-m')) return [module];
  return [...fileWords(program.name, folder), ...subcommand(program.name, program.args)];
}

function parseAddress(text: string): URL | null {
  return /^https?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : null;
}

/** The last part of its path that is a plain word: others may be keys, and names of scripts are seen by many. */
function pageOf({ pathname }: URL): string[] {
  const page = pathname.split('/').findLast((part) => /^[a-z][a-z_-]{1,15}(?:\.[a-z]{2,4})?$/.test(part));
  return page === undefined ? [] : [page.replace(/\..*$/, '')];
}

/** They say little without the folder that they are in. */
const COMMON = /^(?:cron|cronjob|index|run|main|start|update|job|jobs|task|script|console|manage|cli|backup|sync)$/;

const NO_NAMES = ['', '.', '/', '~', 'bin', 'cli', 'admin', 'scripts', 'script', 'maintenance', 'public_html', 'html'];

/** Programs whose first word is an action; that of any other may be a password. */
const WITH_SUBCOMMANDS =
  /^(?:artisan|borg(?:matic)?|bundle|cake|certbot|composer|console|craft|docker|drush|git|joomla|magento|manage|npm|occ|phpbbcli|podman|rails|rake|rclone|restic|snap|spark|symfony|systemctl|typo3|wp(?:-cli)?|yarn|yii)$/;

/** `/var/www/nextcloud/cron.php` → nextcloud, cron */
function fileWords(path: string, folder: string): string[] {
  const name = basename(path).replace(/\.[A-Za-z0-9]{1,5}$/, '');
  if (!COMMON.test(name)) return name === '' ? [] : [name];
  const folders = dirname(isAbsolute(path) ? path : `${folder}/${path}`)
    .replace(/^\/home\/[^/]+/, '')
    .split('/')
    .filter((each) => !NO_NAMES.includes(each) && !each.startsWith('$'));
  return [folders.at(-1) ?? '', name];
}

/** Options that have no value behind them, in most programs. */
const FLAG = /^(?:-[qvny]|--(?:quiet|yes|no-interaction|no-ansi|force|verbose)|--[\w-]+=.*)$/;

/** The first word, if it is an action; never what may be the value of an option, as it might be a password. */
function subcommand(program: string, args: readonly string[]): string[] {
  if (!WITH_SUBCOMMANDS.test(basename(program).replace(/\.\w+$/, ''))) return [];
  const first = args.find((arg) => !FLAG.test(arg)) ?? '';
  return /^[a-z][a-z0-9_-]{0,30}(?::[a-z0-9:_-]{1,40})?$/.test(first) ? [first] : [];
}
