import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { expect, onTestFinished } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import type { runCommandLine } from '../../src/commands/cli.ts';
import type { CommandContext } from '../../src/commands/shared/context.ts';
import type { LoggedRun } from './engines/engine.ts';
import { engine } from './engines/engines.ts';
import { queryLog } from './log.ts';
import { executable, type FileContent, makeTemporaryRoot } from './root.ts';

/** The built command by somebody whom the modes of files bind; root without what lets it read anything. */
export function runBoundByModes(args: readonly string[], place: Place): Promise<Ended> {
  const command = [process.execPath, commandPath, ...args] as const;
  const isRoot = process.geteuid?.() === 0;
  const [program, ...rest] = isRoot ? (['setpriv', WITHOUT_OVERRIDE, ...command] as const) : command;
  return startProcess(program, rest, place).ended;
}

const WITHOUT_OVERRIDE = '--bounding-set=-dac_override,-dac_read_search';

export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Place {
  readonly cwd: string;
  /** All that the process gets, besides where its log is; nothing of the test's own environment. */
  readonly env: NodeJS.ProcessEnv;
  /** What it reads from stdin. */
  readonly input?: string;
}

/** The built command, as cron runs it: by full paths and in a bare environment. */
export function runCommand(args: readonly string[], place: Place): Ended {
  return runNode([commandPath, ...args], withCompileCache(place));
}

/** Whoever runs the tests does so on a terminal, or over ssh. */
export const byCron = { RUNNER_CALLED_BY: 'cron' };

const compileCache = new URL('../../node_modules/.cache/compiled', import.meta.url).pathname;

/** As on a host where it has run before: in each test's new home Node would compile it all again. */
export function withCompileCache(place: Place): Place {
  return { ...place, env: { XDG_CACHE_HOME: compileCache, ...place.env } };
}

/** For TypeScript run by Node itself, which takes four times as long where each file has to be stripped of its types. */
export const nodeCache = { NODE_COMPILE_CACHE: join(compileCache, 'node') };

/** A script run by this Node, without the runner around it. */
export function runNode(args: readonly string[], { cwd, env, input = '' }: Place): Ended {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd,
    env: { ...byCron, ...engine.environment(), ...env },
    input,
    encoding: 'utf8',
    timeout: 50_000,
  });
  return { status, stdout, stderr };
}

export const commandPath = new URL('../../dist/bin.cjs', import.meta.url).pathname;

/** What is loaded into Node scripts; the process for handlers starts from a file beside it. */
export const probePath = join(dirname(commandPath), `probe-${packageJson.version}.cjs`);

/** A process that goes on while the test does; ended with the test. */
export interface Started {
  readonly pid: number;
  /** With a status of null where a signal ended it. */
  readonly ended: Promise<Ended>;
  /** What it has written to stdout by now. */
  printed(): string;
  kill(signal: NodeJS.Signals): void;
}

/**
 * The built command as cron runs it, without waiting for its end.
 *
 * @param enter words of a program that runs it somewhere else
 */
export function startCommand(args: readonly string[], place: Place, enter: readonly string[] = []): Started {
  const [program, ...rest] = [...enter, process.execPath, commandPath, ...args];
  return startProcess(program as string, rest, withCompileCache(place));
}

/** A TypeScript file of the tests, run by this Node. */
export function startNode(args: readonly string[], place: Partial<Place> = {}): Started {
  return startProcess(process.execPath, args, { cwd: '/', ...place, env: { ...nodeCache, ...place.env } });
}

export function startProcess(program: string, args: readonly string[], place: Place): Started {
  const { input, env, ...options } = place;
  const stdin = input === undefined ? 'ignore' : 'pipe';
  const child = spawn(program, args, {
    ...options,
    env: { ...byCron, ...engine.environment(), ...env },
    stdio: [stdin, 'pipe', 'pipe'],
  });
  // It may have been killed before it has read it.
  child.stdin?.on('error', () => {}).end(input);
  onTestFinished(() => void child.kill('SIGKILL'));
  const text = { stdout: '', stderr: '' };
  const kill = (signal: NodeJS.Signals) => void child.kill(signal);
  return { pid: child.pid as number, ended: collect(child, text), printed: () => text.stdout, kill };
}

function collect(child: ChildProcess, text: { stdout: string; stderr: string }): Promise<Ended> {
  child.stdout?.on('data', (chunk) => (text.stdout += chunk));
  child.stderr?.on('data', (chunk) => (text.stderr += chunk));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status) => resolve({ status, ...text }));
  });
}

/** What each of the processes has printed as JSON, once all have ended without a complaint. */
export async function readAnswers<T>(children: readonly Started[]): Promise<T[]> {
  const ended = await Promise.all(children.map((child) => child.ended));
  return ended.map(({ status, stdout, stderr }) => {
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.parse(stdout) as T;
  });
}

/** What cron gives a job: a bare environment and, as current folder, anything but the root. */
export function cronPlace(root: string): Place {
  return { cwd: '/', env: { HOME: root, PATH: '/usr/bin:/bin', SHELL: '/bin/sh' } };
}

/** The built command for this root, as cron runs it. */
export function runner(root: string, ...args: readonly string[]): Ended {
  return runCommand([...args, '--root', root], cronPlace(root));
}

/** A pass that has ended, and what the log says of its runs. */
export interface Pass extends Ended {
  readonly root: string;
  readonly runs: readonly LoggedRun[];
  /** The newest run of `hourly/<label>`. */
  run(label: string): LoggedRun;
}

/** Makes a root of these files of `jobs/hourly` and runs the tier once, in cron's bare environment. */
export function runPass(
  scripts: Readonly<Record<string, FileContent>>,
  { env = {}, files = {} }: PassOptions = {},
): Pass {
  const inTier = Object.entries(scripts).map(([name, file]) => [`jobs/hourly/${name}`, file]);
  return runPassAgain(makeTemporaryRoot({ ...files, ...Object.fromEntries(inTier) }), env);
}

export interface PassOptions {
  /** On top of cron's. */
  readonly env?: NodeJS.ProcessEnv;
  /** Files of the root that are no scripts of the tier. */
  readonly files?: Readonly<Record<string, FileContent>>;
}

export function runPassAgain(root: string, env: NodeJS.ProcessEnv = {}): Pass {
  const ended = runCommand(['--root', root, 'hourly'], { cwd: '/', env: { ...cronEnv(root), ...env } });
  return { ...ended, root, ...readRuns(root) };
}

/** What cron gives a command, with a home of its own. */
export function cronEnv(home: string): NodeJS.ProcessEnv {
  return { HOME: home, LOGNAME: 'visitor', PATH: '/usr/bin:/bin', SHELL: '/bin/sh' };
}

export function readRuns(root: string): Pick<Pass, 'runs' | 'run'> {
  const runs = queryLog<LoggedRun>(root, 'select * from runs order by id');
  const run = (label: string): LoggedRun => {
    const found = runs.findLast(({ script }) => script === `hourly/${label}`);
    if (found === undefined) throw new Error(`There is no run of hourly/${label}.`);
    return found;
  };
  return { runs, run };
}

/** Commands that read and write the log and print: nothing of them needs a process of its own. */
const inProcess =
  /^(acknowledge|activity|add|check|claim|cron|import|incidents|init|job|jobs|kick|list|metrics|mute|pause|repeat|report|resume|show|status|unmute|why)$/;

/** Cron's PATH, where the crontab of whoever runs the tests cannot be read. */
export const pathWithoutCrontab = `${join(import.meta.dirname, './faults/bin')}:${cronEnv('').PATH}`;

/** The built command in a root, in cron's environment, with times in UTC. */
export async function inRoot(root: string, ...args: readonly string[]): Promise<Ended> {
  const env = { ...cronEnv(root), PATH: pathWithoutCrontab, TZ: 'UTC', COLUMNS: '110' };
  return await callCommand(args, { cwd: root, env });
}

/** The built command: in this process where that is all the same, and ten times as fast. */
export async function callCommand(args: readonly string[], place: Place): Promise<Ended> {
  if (!inProcess.test(args[0] ?? '') || place.input !== undefined) {
    return await startCommand(args, place).ended;
  }
  return await callAt(args, place);
}

/** The built command in this process, as if it were another time. */
export async function callAt(args: readonly string[], place: Place, nowMs?: number): Promise<Ended> {
  const { TZ } = process.env;
  setZone(place.env.TZ);
  try {
    return await callHere(args, place, nowMs === undefined ? Date.now : () => nowMs);
  } finally {
    setZone(TZ);
  }
}

/** The zone of a process is all that it takes from its own environment. */
function setZone(zone: string | undefined): void {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
}

async function callHere(args: readonly string[], place: Place, now: () => number): Promise<Ended> {
  const built = createRequire(import.meta.url)(`${dirname(commandPath)}/cli.cjs`) as {
    readonly runCommandLine: typeof runCommandLine;
  };
  const [stdout, stderr] = [new Collector(), new Collector()];
  let status = 0;
  await built.runCommandLine(args, {
    ...contextOf(place),
    now,
    stdout: stdout as unknown as NodeJS.WriteStream,
    stderr: stderr as unknown as NodeJS.WriteStream,
    setExitCode: (code) => {
      status = code;
    },
  });
  return { status, stdout: stdout.text, stderr: stderr.text };
}

/** The world of a call that prints nothing. */
export function contextOf({ cwd, env }: Place): CommandContext {
  const nowhere = new Collector() as unknown as NodeJS.WriteStream;
  return {
    cwd,
    env: { ...engine.environment(), ...env },
    caller: { umask: process.umask(), zone: env.TZ },
    stdout: nowhere,
    stderr: nowhere,
    now: Date.now,
    distFolder: dirname(commandPath),
    version: packageJson.version,
    setExitCode: () => {},
    // The test itself may have the log open by the other driver.
    asksLittle: () => {},
    findWrongUse: () => Promise.reject(new Error('Only a process of its own looks for that.')),
  };
}

/** What nobody reads as it comes, as a pipe's other end. */
class Collector extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** A root with a tier and two handlers. */
export function makeQueueSite(): string {
  return makeTemporaryRoot({
    'jobs/hourly/clean.sh': executable('#!/bin/sh\necho clean\n'),
    'jobs/queue/mail/welcome.mjs': 'export default () => ({ sent: true });\n',
    'jobs/queue/export.sh': executable('#!/bin/sh\necho done\n'),
  });
}

/** The built command in a root, with something on its stdin. */
export function withInput(root: string, input: string, ...args: readonly string[]): Ended {
  const env = { ...cronEnv(root), TZ: 'UTC', COLUMNS: '110' };
  return runCommand(args, { cwd: root, env, input });
}

/** What a command prints as JSON. */
export function jsonOf({ stdout }: Ended) {
  return JSON.parse(stdout);
}
