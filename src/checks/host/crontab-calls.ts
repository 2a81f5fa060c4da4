import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { CrontabTrouble, readBlock } from '../../hosting/crontab/block.ts';
import {
  argsOf,
  findOwnProgram,
  nameIn,
  programName,
  readCrontabWord,
  readOwnLine,
} from '../../hosting/crontab/own-line.ts';
import { readChangedAt, readCrontab } from '../../hosting/crontab/program.ts';
import { sieveOf } from '../../hosting/crontab/times.ts';
import type { CrontabLine, CrontabTimes } from '../../schedule/crontab-times.ts';
import { UsageError } from '../../system/base/errors.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { machineZone } from '../../system/base/zone.ts';
import { findRoot } from '../../system/place/root.ts';
import { userName } from '../../system/process/user.ts';
import { askProgram, reasonOfFailure } from './probes.ts';
import { type CommandToTry, programToTry, scriptToTry, shellOf } from './try-command.ts';

/** The lines of the user's crontab that concern this root. */
export interface CrontabReading {
  /** Why it could not be read; null: it was. */
  readonly failure: string | null;
  /** The fault of the marked block; null: none. */
  readonly damage: string | null;
  /** As it is; empty where it could not be read. */
  readonly crontab: Buffer;
  /** The lines of the marked block. */
  readonly block: readonly string[];
  /** The lines that call this root. */
  readonly calls: readonly CrontabCall[];
  /** Lines whose root is not there, perhaps since it was moved. */
  readonly lost: readonly CrontabCall[];
}

/** A line of the crontab that calls this package's command, for whatever root. */
export interface CrontabCall {
  readonly number: number;
  readonly text: string;
  /** The `CRON_TZ` that is set above it; null: none. */
  readonly zone: string | null;
  /** The `TZ` that is set above it, for its command; null: none. */
  readonly commandZone: string | null;
  /** The tier or command that it calls: `hourly`, `due`, `work`; null: none. */
  readonly name: string | null;
  /** Null where the command would find none. */
  readonly root: string | null;
  /** The root that it names, and that may not be there. */
  readonly namedRoot: string | null;
  /** Why it will not run as it is meant, as far as reading tells. */
  readonly flaws: readonly string[];
  /** Null where the shell would have to run something else to tell. */
  readonly command: CallCommand | null;
}

/** The arguments that a crontab line passes to the runner, and a command that shows whether they would reach it. */
interface CallCommand extends CommandToTry {
  readonly args: readonly string[];
}

export async function readCrontabCalls(root: string, env: NodeJS.ProcessEnv): Promise<CrontabReading> {
  try {
    const crontab = readCrontab(env);
    const all = await readLines(crontab.toString(), root, cronEnv(env));
    return {
      failure: null,
      crontab,
      ...tryReadBlock(crontab, root),
      calls: all.filter((call) => call.root !== null && isSame(call.root, root)),
      lost: all.filter((call) => call.root === null && call.namedRoot !== null),
    };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { failure: foundBy(error), damage: null, crontab: Buffer.alloc(0), block: [], calls: [], lost: [] };
  }
}

/** When the crontab calls the tiers of this root; null: it cannot be read. */
export async function readCrontabTimes(root: string, env: NodeJS.ProcessEnv): Promise<CrontabTimes | null> {
  const { failure, calls } = await readCrontabCalls(root, env);
  if (failure !== null) return null;
  // Cron uses the machine's zone, not that of the settings. Computing times in a named zone takes longer.
  const zone = process.env.TZ === undefined ? null : machineZone();
  return { changedAtMs: readChangedAt(root), zone, lines: calls.flatMap(timesOf) };
}

/** None of a line that calls no tier, or just at a boot. */
function timesOf({ name, text, zone }: CrontabCall): CrontabLine[] {
  const [, times = '@reboot'] = /^\s*(@\w+|(?:\S+\s+){4}\S+)\s/.exec(text) ?? [];
  if (name === null || name === 'work' || times === '@reboot') return [];
  // Only the script counts, as did what earlier versions wrote into their lines.
  const isSieved = readOwnLine(text) !== null || text.includes('-ne 0 ] && exit; ');
  return [{ calls: name, times, zone, sieve: isSieved ? sieveOf(name, times) : null }];
}

function tryReadBlock(crontab: Buffer, root: string) {
  try {
    return { block: readBlock(crontab, root), damage: null };
  } catch (error) {
    return { block: [], damage: foundBy(error as Error) };
  }
}

function isSame(one: string, other: string): boolean {
  return realpathSync(one) === realpathSync(other);
}

/** The environment that cron gives to its calls. */
export function cronEnv({ HOME = '/', LOGNAME, USER }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const name = LOGNAME ?? USER ?? userName('nobody');
  return { HOME, LOGNAME: name, SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
}

const assignment = /^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/;
const timed = /^\s*(?:@\w+|(?:[^\s#]+\s+){4}[^\s#]+)\s+(.*)$/;

/** One line after another: hosts count processes. */
async function readLines(crontab: string, root: string, ofCron: NodeJS.ProcessEnv): Promise<CrontabCall[]> {
  let env = ofCron;
  const lines = crontab.split('\n');
  const calls: CrontabCall[] = [];
  for (const [index, text] of lines.entries()) {
    const [, name, value = ''] = assignment.exec(text) ?? [];
    if (name !== undefined) {
      env = { ...env, [name]: value.replace(/^(['"])(.*)\1$/, '$2') };
      continue;
    }
    const call = await readLine({ number: index + 1, text }, root, env);
    if (call === null) continue;
    const isLast = index === lines.length - 1;
    calls.push(isLast ? { ...call, flaws: [...call.flaws, NO_NEWLINE] } : call);
  }
  return calls;
}

const CUT_OFF = 'has a % without a backslash, where cron cuts it off';

/** Vixie cron reads a line only up to its end, and the last one has none. */
const NO_NEWLINE = 'has no newline at its end, so many crons ignore it';

interface WrittenLine {
  readonly number: number;
  readonly text: string;
}

/** Null for one that does not call the command. */
async function readLine(line: WrittenLine, root: string, env: NodeJS.ProcessEnv): Promise<CrontabCall | null> {
  const [, written] = timed.exec(line.text.replace(/\r$/, '')) ?? [];
  // To cron an unescaped `%` is the end of the command.
  const [command = ''] = /^(?:\\[\s\S]|[^%\\])*/.exec(written ?? '') ?? [];
  const flaws = [
    ...(line.text.endsWith('\r') ? ['ends in a carriage return, which becomes part of its last word'] : []),
    ...(command === written ? [] : [CUT_OFF]),
  ];
  const place = { ...line, zone: env.CRON_TZ || null, commandZone: env.TZ || null };
  const own = readOwnCall(line.text, env);
  // The text after a bare % is the input of a wrapped command.
  const ofOwn = own?.name && isExecName(own.name) ? flaws.filter((flaw) => flaw !== CUT_OFF) : flaws;
  if (own !== null) return { ...place, flaws: ofOwn, ...own };
  const call = findCall(command.replaceAll('\\%', '%'));
  if (call === null) return null;
  const expanded = call.isPlain ? await expand(call, env) : null;
  if (expanded !== null && 'words' in expanded) {
    const program = findOwnProgram(expanded.words);
    if (program === null) return null;
    const args = expanded.words.slice(program.end);
    const told = { args, cwd: expanded.cwd, env: expanded.env };
    return {
      ...place,
      flaws,
      ...rootsOf(told),
      name: nameIn(args),
      command: { ...told, ...programToTry(program, told) },
    };
  }
  return {
    ...place,
    name: nameIn(argsOf(call.text.split(/\s+/))),
    // A line that is not expanded belongs to the root whose path is in it.
    root: line.text.includes(root) ? root : null,
    namedRoot: null,
    flaws: expanded === null ? flaws : [...flaws, expanded.refusal],
    command: null,
  };
}

/** A line that calls the script: all that is to be known stands in it. */
function readOwnCall(text: string, env: NodeJS.ProcessEnv) {
  const own = readOwnLine(text);
  if (own?.script == null) return null;
  const args = ['--root', own.root, own.name, ...own.args];
  const path = readCrontabWord(own.script).replace(/^~(?=\/)/, () => env.HOME ?? '/');
  const command: CallCommand = { args, cwd: env.HOME ?? '/', env, ...scriptToTry(path, own.root) };
  return {
    name: nameIn([own.name, ...own.args]),
    root: tryFindRoot(own.root, undefined, '/'),
    namedRoot: own.root,
    command,
  };
}

/** The command of a shell line that calls this package. */
interface ShellCall {
  readonly text: string;
  /** The `cd …` before it. */
  readonly cd: string | null;
  /** Nothing else needs to be run to know its words. */
  readonly isPlain: boolean;
}

/** The text between two operators of the shell; operators in quotes do not count. */
const simpleCommand = /(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\\'"`;&|<>()])+/g;

function findCall(line: string): ShellCall | null {
  const commands = [...line.matchAll(simpleCommand)].map(({ 0: text, index }) => {
    const before = line.charAt(index - 1);
    const next = line.charAt(index + text.length);
    return {
      // The number of a redirection is no word.
      text: (/[<>]/.test(next) ? text.replace(/\s\d+$/, '') : text).trim(),
      isPlain: !/[)`]/.test(before) && !/[(`]/.test(next) && !/\$\(|`/.test(text),
    };
  });
  // Before it stands what looks whether it is there, and says so.
  const call = commands.find(
    ({ text }) => programName.test(text) && !/^(?:\{\s+)?(?:cd|for|\[|test|echo)\s/.test(text),
  );
  if (call === undefined) return null;
  const cd = commands.slice(0, commands.indexOf(call)).findLast(({ text }) => /^cd\s/.test(text));
  return { text: call.text, cd: cd?.text ?? null, isPlain: call.isPlain && cd?.isPlain !== false };
}

interface ExpandedLine {
  readonly words: readonly string[];
  readonly cwd: string;
  /** Environment of the command: cron's own few variables, and those that the crontab sets above the line. */
  readonly env: NodeJS.ProcessEnv;
}

/** Lets the line's own shell make words of it, in cron's environment. */
async function expand(
  { text, cd }: ShellCall,
  env: NodeJS.ProcessEnv,
): Promise<ExpandedLine | { readonly refusal: string }> {
  const script = `${cd === null ? '' : `${cd} && `}printf '%s\\0' "$PWD" ${text}`;
  const answer = await askShell(script, env.HOME ?? '/', env, 5000);
  if (answer.exitCode !== 0) {
    return { refusal: `the shell cannot read it: ${reasonOfFailure(answer)}` };
  }
  const [cwd = '/', ...all] = answer.stdout.split('\0').slice(0, -1);
  const start = all.findIndex((word) => !/^[A-Za-z_]\w*=/.test(word));
  const variables = all.slice(0, start).map((word) => word.split(/=(.*)/s).slice(0, 2));
  const words = all.slice(start);
  return { words, cwd, env: { ...env, ...Object.fromEntries(variables) } };
}

function askShell(script: string, cwd: string, env: NodeJS.ProcessEnv, timeoutMs: number) {
  return askProgram([shellOf(env), '-c', script], { env, cwd, timeoutMs });
}

function rootsOf({
  args,
  cwd,
  env,
}: Pick<CallCommand, 'args' | 'cwd' | 'env'>): Pick<CrontabCall, 'root' | 'namedRoot'> {
  const option = optionOf(args, '--root');
  const named = option ?? env.RUNNER_ROOT;
  return {
    root: tryFindRoot(option, env.RUNNER_ROOT, cwd),
    namedRoot: named === undefined ? null : resolve(cwd, named),
  };
}

function optionOf(args: readonly string[], name: string): string | undefined {
  const index = args.indexOf(name);
  if (index !== -1) return args[index + 1];
  return args.find((arg) => arg.startsWith(`${name}=`))?.slice(name.length + 1);
}

function tryFindRoot(option: string | undefined, variable: string | undefined, cwd: string): string | null {
  try {
    return findRoot({ option, variable, cwd });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return null;
  }
}

/** Without what follows for who wanted to change the crontab. */
function foundBy(error: Error): string {
  return error instanceof CrontabTrouble ? error.found : error.message;
}
