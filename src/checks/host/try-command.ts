import { readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { OwnProgram } from '../../hosting/crontab/own-line.ts';
import { isOwnScript } from '../../hosting/crontab/script.ts';
import { shellWord } from '../../system/base/values.ts';
import { findProgram, isExecutable } from '../../system/process/programs.ts';
import { askProgram, reasonOfFailure } from './probes.ts';

/** The environment that cron gives to a command of the crontab. */
export interface CronPlace {
  readonly cwd: string;
  /** Cron's own few variables, and those that the crontab sets above the line. */
  readonly env: NodeJS.ProcessEnv;
}

export interface CommandToTry extends CronPlace {
  /** Command that shows, by printing a version, that the line would work; null: it must not be run. */
  readonly trial: readonly string[] | null;
  /** Why it is not; null: it is. */
  readonly refusal: Refusal | null;
}

interface Refusal {
  readonly reason: string;
  /** Whether the line cannot work; else nobody knows. */
  readonly isFault: boolean;
}

type Trialled = Pick<CommandToTry, 'trial' | 'refusal'>;

/** The script says whether it finds Node and the package for that root. */
export function scriptToTry(path: string, root: string): Trialled {
  if (isOwnScript(path)) return { trial: ['sh', path, '--version', root], refusal: null };
  return cannotWork(`${path} is not there, or not the script of \`npx folder-runner cron --install\``);
}

/** Nothing but a Node that is there and files of this package is ever run: a crontab holds others' programs, too. */
export function programToTry({ node, launcher, file }: OwnProgram, place: CronPlace): Trialled {
  const starter = node ?? launcher;
  const missing = starter === null ? null : findMissing(starter, place);
  if (missing !== null) return cannotWork(missing);
  if (launcher !== null) return notKnown(`${launcher} would look for the package, perhaps on the internet`);
  const path = node === null ? findFile(file, place) : resolve(place.cwd, file);
  if (path === null || statSync(path, { throwIfNoEntry: false }) === undefined) return cannotWork(`${file}: not found`);
  if (!isOfPackage(path)) return notKnown(`${path} is no file of the package folder-runner`);
  return { trial: [...(node === null ? [] : [node]), path, '--version'], refusal: null };
}

function cannotWork(reason: string): Trialled {
  return { trial: null, refusal: { reason, isFault: true } };
}

function notKnown(reason: string): Trialled {
  return { trial: null, refusal: { reason, isFault: false } };
}

function findMissing(program: string, place: CronPlace): string | null {
  return findFile(program, place) === null ? `${program}: not found` : null;
}

/** As a shell finds it; null: nowhere. */
function findFile(program: string, { cwd, env }: CronPlace): string | null {
  if (!program.includes('/')) return findProgram(program, env.PATH ?? '');
  const path = resolve(cwd, program);
  return isExecutable(path) ? path : null;
}

/** Also what package managers make in `.bin`: a link to it, or a few lines of shell. */
function isOfPackage(path: string): boolean {
  try {
    const file = realpathSync(path);
    const manifest = readFileSync(join(dirname(file), '..', 'package.json'), 'utf8');
    return JSON.parse(manifest).name === 'folder-runner';
  } catch {
    return isShim(path);
  }
}

const LONGEST_SHIM = 4096;

function isShim(path: string): boolean {
  return statSync(path).size <= LONGEST_SHIM && /\/folder-runner\/dist\/bin\.cjs/.test(readFileSync(path, 'utf8'));
}

/** Those that are known to take a command behind `-c`; another one is not started. */
const SHELL = /^(?:\/usr)?(?:\/local)?(?:\/cpanel)?\/bin\/[a-z]*sh(?:ell)?$/;

/** The shell that cron runs the line with. */
export function shellOf({ SHELL: shell = '/bin/sh' }: NodeJS.ProcessEnv): string {
  return SHELL.test(shell) ? shell : '/bin/sh';
}

/** The result of a line that was tried as cron would run it. */
export type Trial =
  | { readonly works: true; readonly version: string }
  | { readonly works: false; readonly reason: string }
  | { readonly works: null; readonly reason: string };

/**
 * Runs a line's own Node and command, or its script, with the line's own shell and cron's bare environment. They only
 * print their version, which proves that they are found, and no script runs. The rest of the line (`nice`, `&& curl …`)
 * is left out.
 */
export async function tryCommand({ trial, refusal, cwd, env }: CommandToTry): Promise<Trial> {
  if (trial === null) return { works: refusal?.isFault === true ? false : null, reason: refusal?.reason ?? '' };
  const command = trial.map(shellWord).join(' ');
  const answer = await askProgram([shellOf(env), '-c', command], { env, cwd, timeoutMs: 20_000 });
  const version = answer.stdout.trim();
  if (answer.exitCode === 0 && /^\d+\.\d+\.\d+\S*$/.test(version)) return { works: true, version };
  return { works: false, reason: reasonOfFailure(answer) };
}
