import { join } from 'node:path';
import { tierFolder, tierNames } from '../../discovery/jobs-folder.ts';
import { describeMisnamed, guessPeriodName } from '../../schedule/misnamed.ts';
import { parseDurationMs } from '../../settings/readers.ts';
import { databaseVariables } from '../../store/which-log.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import { holdsJobs } from '../../system/place/root.ts';
import { findOwnNode } from '../../system/process/programs.ts';
import {
  type CronCall,
  callsOfLines,
  crontabBlock,
  crontabLines,
  foreignShell,
  readBlock,
  rootsOfBlocks,
  variableAtBlock,
} from './lines.ts';
import { byFrequency, type CronPeriod, parseCronPeriod } from './period.ts';
import { readCrontab } from './program.ts';

/** What the options of `runner cron` ask for. */
export interface CronChoice {
  /** Names with commas between, as in `--tiers`; undefined: all tiers with a period. */
  readonly tiers: string | undefined;
  /** One line for all tiers, with these words after `due`; null: a line for each tier. */
  readonly due: readonly string[] | null;
  /** Every how many minutes a line calls `runner work`; null: none does. */
  readonly workMinutes: number | null;
}

/** What options ask for beside lines that may be installed. */
export interface AskedLines extends Omit<CronChoice, 'workMinutes'> {
  /** Undefined: as it is installed. */
  readonly workMinutes: number | null | undefined;
}

export interface CrontabPlan {
  readonly lines: readonly string[];
  /** The lines between their markers, ready to paste. */
  readonly block: string;
  /** What may make the lines fail one day: one sentence each. */
  readonly warnings: readonly string[];
}

/**
 * What the crontab should hold for this root, run by the Node and the command that run now.
 *
 * @param installed the lines that it holds for it: they keep their minutes
 */
export function planCrontab(
  root: string,
  distFolder: string,
  choice: CronChoice,
  installed: readonly string[] = [],
): CrontabPlan {
  const nodePath = findOwnNode();
  const commandPath = join(distFolder, 'bin.cjs');
  const zoneOffsetMinutes = standardOffsetMinutes();
  const calls = chooseCalls(root, choice);
  const lines = crontabLines({ nodePath, commandPath, root, calls, installed, zoneOffsetMinutes });
  return {
    lines,
    block: crontabBlock(root, lines),
    warnings: [...[nodePath, commandPath].map(warnOfVanishingPath), ...tierNames(root).map(warnOfMisnamed)].filter(
      (warning) => warning !== null,
    ),
  };
}

function warnOfMisnamed(tier: string): string | null {
  const reason = describeMisnamed(tier);
  return reason === null ? null : `jobs/${tier} is ${reason}`;
}

/** Without them a pass would use another log than the shell that has set them. */
const ofFleets = [...databaseVariables, 'RUNNER_HOST'];

/** What this shell knows of many machines, and cron does not: a sentence, or none. */
export function warnOfUnknownVariables(env: NodeJS.ProcessEnv): readonly string[] {
  const set = ofFleets.filter((name) => env[name]?.trim());
  const crontab = set.length === 0 ? '' : readIfPossible(env);
  const unknown = set.filter((name) => !new RegExp(`(^|\\s)${name}\\s*=`, 'm').test(crontab));
  if (unknown.length === 0) return [];
  const what = `${unknown.join(' and ')}, which ${unknown.length === 1 ? 'is' : 'are'} set here`;
  return [`cron does not know ${what}: write it into the first lines of the crontab, as docs/many-machines.md shows.`];
}

/** A shell of the crontab that cannot read the lines: a sentence, or none. */
export function warnOfShell(root: string, env: NodeJS.ProcessEnv): readonly string[] {
  const shell = foreignShell(Buffer.from(readIfPossible(env)), root);
  if (shell === null) return [];
  return [
    `your crontab sets SHELL=${printableLine(shell)}, which cannot read these lines: ` +
      'write SHELL=/bin/sh above them, and your own SHELL below them.',
  ];
}

/** Where cron mails what passes print, as far as the crontab says it; in Latin-1, as an import reads lines. */
export function readMailTo(root: string, env: NodeJS.ProcessEnv): string | undefined {
  const address = variableAtBlock(Buffer.from(readIfPossible(env)), root, 'MAILTO');
  return address === undefined ? undefined : Buffer.from(address).toString('latin1');
}

/** Blocks of other roots that are not there any more, perhaps since they were moved: a sentence each. */
export function warnOfLostRoots(root: string | null, env: NodeJS.ProcessEnv): readonly string[] {
  const lost = rootsOfBlocks(Buffer.from(readIfPossible(env))).filter((each) => each !== root && !holdsJobs(each));
  return lost.map(
    (each) =>
      `your crontab still calls ${printableLine(each)}, which has no jobs folder any more: ` +
      `\`npx folder-runner cron --remove --root ${printableLine(shellWord(each))}\` takes these lines out.`,
  );
}

function readIfPossible(env: NodeJS.ProcessEnv): string {
  try {
    return readCrontab(env).toString();
  } catch {
    // Where there is no such program, a panel keeps the crontab.
    return '';
  }
}

/** January's, so that the lines are the same in summer and in winter: an hour more or less alters nothing. */
function standardOffsetMinutes(): number {
  return new Date(new Date().getFullYear(), 0, 1).getTimezoneOffset();
}

/** The worker last, out of the way of the tiers. */
function chooseCalls(root: string, { tiers: option, due, workMinutes }: CronChoice): CronCall[] {
  const work = workMinutes === null ? [] : [workCall(workMinutes)];
  const mayBeWithout = work.length > 0 && due === null && option === undefined;
  const tiers = mayBeWithout ? periodicTiers(root) : chooseTiers(root, option);
  return [...(due === null ? tierCalls(tiers) : [dueCall(tiers, due)]), ...work];
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

/** Of `--tiers`: each is a folder under `jobs/`. */
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

/** Each tier by itself, from the most to the least frequent. */
export function tierCalls(tiers: readonly string[]): CronCall[] {
  return [...new Set(tiers)]
    .map((tier): CronCall => ({ words: [tier], period: periodOf(tier) }))
    .sort((a, b) => byFrequency(a.period, b.period) || (a.words[0] < b.words[0] ? -1 : 1));
}

/** All tiers at once, as often as the most frequent one asks for. */
export function dueCall(tiers: readonly string[], args: readonly string[]): CronCall {
  const [period] = tiers.map(periodOf).sort(byFrequency);
  if (period === undefined) throw new Error('There is no tier to be due.');
  return { words: ['due', ...args], period };
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

/** The options that lines of a block were written with, by what they call. */
export function choiceOfLines(root: string, lines: readonly string[]): CronChoice {
  const calls = callsOfLines(root, lines);
  const argsOf = (name: string) => calls.find((words) => words[0] === name)?.slice(1) ?? null;
  const tiers = calls.map(([name]) => name).filter((name) => name !== 'due' && name !== 'work');
  const life = argsOf('work')?.[1];
  return {
    tiers: tiers.length === 0 ? undefined : tiers.join(','),
    due: argsOf('due'),
    workMinutes: WORK_MINUTES.find((minutes) => lifeOf(minutes) === life) ?? null,
  };
}

/** The lines of the installed block; none where there is none, or the crontab cannot be read. */
export function readInstalledLines(root: string, env: NodeJS.ProcessEnv): readonly string[] {
  try {
    return readBlock(readCrontab(env), root);
  } catch (error) {
    // The same goes wrong when the crontab is written, and is reported then.
    if (!(error instanceof UsageError)) throw error;
    return [];
  }
}

/** Where Node or a package lives only until the next upgrade, and what to do about it. */
const VANISHING: readonly (readonly [RegExp, string])[] = [
  [/\/_npx\//, "is in npx's cache, which npm empties: run `npm install folder-runner` first"],
  [/\/\.nvm\/versions\//, 'is one version of nvm and disappears when that version is removed'],
  [/\/nodevenv\//, 'is in nodevenv and changes when another Node version is chosen in the panel'],
  [/\/fnm_multishells\//, 'belongs to one shell session of fnm and disappears with it'],
  [/\/(?:\.fnm|fnm)\/node-versions\//, 'is one version of fnm and disappears when it is removed'],
  [/\/\.volta\/tools\//, 'is one version of Volta and disappears when it is removed'],
  [/\/(?:\.asdf|mise)\/installs\//, 'is one version of asdf or mise and disappears when removed'],
  [/\/Cellar\//, 'is one version of Homebrew and disappears with the next `brew upgrade`'],
  [/\/node_modules\/node[^/]*\//, 'comes from the npm package `node`, which may be removed or upgraded'],
];

/** Why cron would one day no longer find this file; null: it stays. */
export function reasonToVanish(path: string): string | null {
  return VANISHING.find(([pattern]) => pattern.test(path))?.[1] ?? null;
}

function warnOfVanishingPath(path: string): string | null {
  const why = reasonToVanish(path);
  if (why === null) return null;
  return `${path} ${why}; run \`npx folder-runner cron --install\` again after that, or cron will fail.`;
}
