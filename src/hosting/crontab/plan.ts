import { join } from 'node:path';
import { tierFolder, tierNames } from '../../discovery/jobs-folder.ts';
import { describeMisnamed, guessPeriodName, tierPeriodMs } from '../../schedule/period.ts';
import { parseDurationMs } from '../../settings/readers.ts';
import { databaseVariables, isOnServer } from '../../store/shared/which-log.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import { areAlike, findUnshared, holdsJobs } from '../../system/place/root.ts';
import {
  type BlockContent,
  crontabBlock,
  readBlock,
  readChosenTiers,
  rootsOfBlocks,
  variableAtBlock,
} from './block.ts';
import { type CronCall, planLines, readLineOf } from './lines.ts';
import type { OwnLine } from './own-line.ts';
import { readCrontab } from './program.ts';
import { type CronScript, placeScript } from './script.ts';
import { type CronPeriod, parseCronPeriod } from './times.ts';

/** The lines that the options ask for; undefined: as installed, otherwise the default. */
export interface AskedLines {
  /** Names with commas between; `all`: those with a period. */
  readonly tiers: string | undefined;
  /** One line for all tiers, with these words after `due`; null: a line for each tier, which is the default. */
  readonly due: readonly string[] | null | undefined;
  /** Every how many minutes a line calls `runner work`; null: none does, which is the default. */
  readonly workMinutes: number | null | undefined;
}

/** Nothing is asked for. */
export const AS_INSTALLED: AskedLines = { tiers: undefined, due: undefined, workMinutes: undefined };

export interface CrontabPlan {
  readonly content: BlockContent;
  /** The lines between their markers, ready to paste. */
  readonly block: string;
  /** Lines of the block that go, or get other times. */
  readonly dropped: readonly string[];
  /** The script that the lines call. */
  readonly script: CronScript;
  /** One sentence for each reason why the lines may fail one day, and for each tier that is left out. */
  readonly warnings: readonly string[];
}

/** The lines of this root: as the options ask, otherwise as installed, with all additions by hand. */
export function planCrontab(
  root: string,
  asked: AskedLines,
  crontab: Buffer,
  env: NodeJS.ProcessEnv,
  commandPath: string,
): CrontabPlan {
  const installed = readBlock(crontab, root);
  const script = placeScript(root, env, crontab);
  const { calls, chosenTiers } = chooseCalls(root, asked, installed, readChosenTiers(crontab, root));
  const { lines, dropped } = planLines({ root, script: script.written, calls, installed });
  const content = { lines, chosenTiers };
  return {
    content,
    block: crontabBlock(root, content),
    dropped,
    script,
    warnings: [
      warnOfVanishingPath(commandPath),
      ...tierNames(root).map(warnOfMisnamed),
      ...warnOfLeftOut(root, chosenTiers),
      ...warnOfTwins(root, crontab),
      isOnServer(env) ? null : warnOfUnshared(root),
    ].filter((warning) => warning !== null),
  };
}

/** A folder that came after the tiers were chosen is easily forgotten. */
function warnOfLeftOut(root: string, chosenTiers: string | undefined): string[] {
  if (chosenTiers === undefined) return [];
  const left = periodicTiers(root).filter((tier) => !chosenTiers.split(',').includes(tier));
  if (left.length === 0) return [];
  return [
    `no line calls ${left.join(', ')}, as --tiers ${chosenTiers} was chosen: ` +
      '`npx folder-runner cron --install --tiers all` writes a line for each tier.',
  ];
}

/** After a deploy that has installed the lines of its own folder, say. */
function warnOfTwins(root: string, crontab: Buffer): string[] {
  const twins = rootsOfBlocks(crontab).filter((each) => each !== root && holdsJobs(each) && areAlike(root, each));
  return twins.map(
    (each) =>
      `your crontab also calls ${printableLine(each)}, which is the same site as ${printableLine(root)}, so that its ` +
      `scripts run twice: \`npx folder-runner cron --remove --root ${printableLine(shellWord(each))}\` takes these ` +
      'lines out.',
  );
}

function warnOfUnshared(root: string): string | null {
  const unshared = findUnshared(root);
  return unshared === null ? null : `${printableLine(unshared.fault)}. ${unshared.cure}`;
}

function warnOfMisnamed(tier: string): string | null {
  const reason = describeMisnamed(tier);
  return reason === null ? null : `jobs/${tier} is ${reason}`;
}

/** Without them a pass would use another log than the shell that has set them. */
const ofFleets = [...databaseVariables, 'RUNNER_HOST'];

/** Variables for many machines that this shell has and cron does not: one sentence, or none. */
export function warnOfUnknownVariables(env: NodeJS.ProcessEnv): readonly string[] {
  const set = ofFleets.filter((name) => env[name]?.trim());
  const crontab = set.length === 0 ? '' : readCrontabIfAny(env).toString();
  const unknown = set.filter((name) => !new RegExp(`(^|\\s)${name}\\s*=`, 'm').test(crontab));
  if (unknown.length === 0) return [];
  const what = `${unknown.join(' and ')}, which ${unknown.length === 1 ? 'is' : 'are'} set here`;
  return [`cron does not know ${what}: write it into the first lines of the crontab, as docs/database.md shows.`];
}

/** The address to which cron mails output, if the crontab sets one; in Latin-1, as an import reads lines. */
export function readMailTo(root: string, env: NodeJS.ProcessEnv): string | undefined {
  const address = variableAtBlock(readCrontabIfAny(env), root, 'MAILTO');
  return address === undefined ? undefined : Buffer.from(address).toString('latin1');
}

/** Blocks of other roots that are not there any more, perhaps since they were moved: a sentence each. */
export function warnOfLostRoots(root: string | null, env: NodeJS.ProcessEnv): readonly string[] {
  const lost = rootsOfBlocks(readCrontabIfAny(env)).filter((each) => each !== root && !holdsJobs(each));
  return lost.map(
    (each) =>
      `your crontab still calls ${printableLine(each)}, which has no jobs folder any more: ` +
      `\`npx folder-runner cron --remove --root ${printableLine(shellWord(each))}\` takes these lines out.`,
  );
}

interface ChosenCalls {
  readonly calls: readonly CronCall[];
  /** Undefined: all tiers that have a period. */
  readonly chosenTiers: string | undefined;
}

/** The worker last, out of the way of the tiers. */
function chooseCalls(
  root: string,
  asked: AskedLines,
  installed: readonly string[],
  chosenBefore: string | undefined,
): ChosenCalls {
  const lines = installed.flatMap((text) => readLineOf(root, text) ?? []);
  const dueBefore = lines.find(({ name }) => name === 'due')?.args ?? null;
  const work = chooseWork(asked.workMinutes, lines);
  const due = asked.due !== undefined || asked.tiers !== undefined ? (asked.due ?? null) : dueBefore;
  const option = asked.tiers ?? (due === null ? thoseThere(root, chosenBefore) : undefined);
  const chosenTiers = option === 'all' || option === undefined ? undefined : namedTiers(root, option).join(',');
  const mayBeWithout = work.length > 0 && due === null && chosenTiers === undefined;
  const tiers = mayBeWithout ? periodicTiers(root) : chooseTiers(root, chosenTiers);
  return { calls: [...(due === null ? tierCalls(tiers) : [dueCall(tiers, due)]), ...work], chosenTiers };
}

/** The chosen tiers that still exist; undefined, which means all, if none does. */
function thoseThere(root: string, chosen = ''): string | undefined {
  const there = chosen.split(',').filter((tier) => tierNames(root).includes(tier));
  return there.length === 0 ? undefined : there.join(',');
}

function chooseWork(minutes: number | null | undefined, lines: readonly OwnLine[]): CronCall[] {
  if (minutes === null) return [];
  if (minutes !== undefined) return [workCall(minutes)];
  return lines.flatMap(({ name, args }): CronCall[] =>
    name === 'work' ? [{ words: ['work', ...args], period: periodOf('1min'), isKept: true }] : [],
  );
}

/** The tiers that `--tiers` names, or all that have a period; each is a folder under `jobs/`. */
function chooseTiers(root: string, option: string | undefined): readonly string[] {
  if (option !== undefined) return namedTiers(root, option);
  const tiers = periodicTiers(root);
  if (tiers.length > 0) return tiers;
  throw new UsageError(
    `No folder in ${join(root, 'jobs')} has a period for a name (15min, hourly, daily …), ` +
      `so cron has nothing to run.${tierNames(root).map(guessOf).join('')} Make them with \`npx folder-runner init\`.`,
  );
}

/** The tiers that have a period. */
function periodicTiers(root: string): readonly string[] {
  return tierNames(root).filter((tier) => parseCronPeriod(tier) !== null);
}

/** The tiers that `--tiers` names; each is a folder under `jobs/`. */
export function namedTiers(root: string, option: string): readonly string[] {
  const names = option
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  if (names.length === 0) {
    throw new UsageError(
      `--tiers ${JSON.stringify(option)} names no tier: expected names with commas between them, ` +
        'such as 15min,hourly.',
    );
  }
  for (const name of names) tierFolder(root, name);
  return names;
}

/** One call for each tier, from the most to the least frequent. */
export function tierCalls(tiers: readonly string[]): CronCall[] {
  return [...new Set(tiers)].sort(byFrequency).map((tier) => ({ words: [tier], period: periodOf(tier) }));
}

function byFrequency(one: string, other: string): number {
  return (tierPeriodMs(one) ?? 0) - (tierPeriodMs(other) ?? 0) || (one < other ? -1 : 1);
}

/** One call for all tiers, as often as the most frequent one needs, or more often if cron cannot express that. */
export function dueCall(tiers: readonly string[], args: readonly string[]): CronCall {
  const [first] = tiers.toSorted(byFrequency);
  if (first === undefined) throw new Error('There is no tier to be due.');
  return { words: ['due', ...args], period: { ...periodOf(first), nth: 1 } };
}

/** A worker of the queue that is about to end when the next one comes. */
export function workCall(everyMinutes: number): CronCall {
  return { words: ['work', '--for', lifeOf(everyMinutes)], period: periodOf(`${everyMinutes}min`) };
}

/** `55s` of a minute, `14m` of a quarter of an hour: time to end its last job. */
function lifeOf(everyMinutes: number): string {
  const seconds = everyMinutes * 60 - Math.min(60, everyMinutes * 5);
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`;
}

function periodOf(tier: string): CronPeriod {
  const period = parseCronPeriod(tier);
  if (period !== null) return period;
  throw new UsageError(
    `The tier ${JSON.stringify(tier)} has no period, so cron cannot run it: expected a name like ` +
      `15min, hourly, 2hours, daily, 3days, weekly, monthly or yearly.${guessOf(tier)}`,
  );
}

function guessOf(tier: string): string {
  const guess = guessPeriodName(tier);
  return guess === null ? '' : ` Did you mean ${guess} by jobs/${tier}?`;
}

/** Cron starts a step afresh each hour. */
const WORK_MINUTES = Array.from({ length: 60 }, (_, index) => index + 1).filter((minutes) => 60 % minutes === 0);

/**
 * Every how many minutes `--work` asks for; null: `--no-work`.
 *
 * @throws {UsageError} if cron's fields cannot say it
 */
export function readWorkMinutes(option: string | boolean): number | null {
  if (typeof option === 'boolean') return option ? 1 : null;
  const minutes = (parseDurationMs(option.trim()) ?? 0) / 60_000;
  if (WORK_MINUTES.includes(minutes)) return minutes;
  throw new UsageError(
    '--work must be the time between two workers, a number of minutes that divides an hour, ' +
      `such as 1m, 5m, 15m or 1h, found ${JSON.stringify(option)}.`,
  );
}

/** Empty if the user's crontab cannot be read: writing it fails for the same reason, and reports it. */
export function readCrontabIfAny(env: NodeJS.ProcessEnv): Buffer {
  try {
    return readCrontab(env);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return Buffer.alloc(0);
  }
}

/** Places where a package stays only until the next upgrade of Node, and why. */
const VANISHING: readonly (readonly [RegExp, string])[] = [
  [/\/_npx\//, "is in npx's cache, which npm empties"],
  [/\/\.nvm\/versions\//, 'belongs to one version of nvm and disappears when that version is removed'],
  [/\/nodevenv\//, 'is in nodevenv and changes when another Node version is chosen in the panel'],
  [/\/fnm_multishells\//, 'belongs to one shell session of fnm and disappears with it'],
  [/\/(?:\.fnm|fnm)\/node-versions\//, 'belongs to one version of fnm and disappears when it is removed'],
  [/\/\.volta\/tools\//, 'belongs to one version of Volta and disappears when it is removed'],
  [/\/(?:\.asdf|mise)\/installs\//, 'belongs to one version of asdf or mise and disappears when it is removed'],
  [/\/Cellar\//, 'belongs to one version of Homebrew and disappears with the next `brew upgrade`'],
];

/** Why cron will not find the command one day; null: it stays. The script finds another Node by itself. */
export function reasonToVanish(commandPath: string): string | null {
  return VANISHING.find(([pattern]) => pattern.test(commandPath))?.[1] ?? null;
}

export const INSTALL_IN_ROOT = 'run `npm install folder-runner` in the root, then `npx folder-runner cron --install`.';

function warnOfVanishingPath(path: string): string | null {
  const why = reasonToVanish(path);
  return why === null ? null : `${path} ${why}: ${INSTALL_IN_ROOT}`;
}
