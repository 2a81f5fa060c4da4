import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { findDriver } from '../../store/sqlite/driver.ts';
import { findOwnNode } from '../../system/process/programs.ts';
import { listPids } from '../../system/process/tree.ts';

export interface ProgramRequest {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly timeoutMs: number;
}

export interface ProbeAnswer {
  /** Null: it was not started, or ended by a signal. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Why it gave no answer: not found, or too slow; null: it ended by itself. */
  readonly failure: string | null;
}

const MOST_CHARACTERS = 64 * 1024;

/** Runs another program and never waits longer than the time limit, whatever the program does. */
export function askProgram(
  [command, ...args]: readonly [string, ...string[]],
  { env, cwd, timeoutMs }: ProgramRequest,
): Promise<ProbeAnswer> {
  return new Promise((resolve) => {
    const said = { stdout: '', stderr: '' };
    const child = spawn(command, args, {
      env,
      ...(cwd !== undefined && { cwd }),
      // A group of its own: what a shell has started goes with it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const answer = (exitCode: number | null, failure: string | null): void => {
      clearTimeout(timer);
      // A program in the middle of a call to a dead network drive cannot even be killed.
      child.unref();
      child.stdout.destroy();
      child.stderr.destroy();
      resolve({ exitCode, ...said, failure });
    };
    const timer = setTimeout(() => {
      killGroup(child.pid);
      answer(null, `no answer within ${timeoutMs / 1000} s`);
    }, timeoutMs);
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].setEncoding('utf8').on('data', (text: string) => {
        said[stream] = (said[stream] + text).slice(0, MOST_CHARACTERS);
      });
    }
    child.once('error', (error) => answer(null, error.message));
    child.once('close', (code, signal) => answer(code, signal === null ? null : `ended by ${signal}`));
  });
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // Gone meanwhile.
  }
}

/** One line on the fault: the failure, or the first line that the program printed, or its exit code. */
export function reasonOfFailure({ exitCode, stderr, stdout, failure }: ProbeAnswer): string {
  const said = mainLine(`${stderr}\n${stdout}`);
  return failure ?? (said || `exit code ${exitCode}, no message`);
}

/** The line of a failed program's output that gives the reason: Node prints the place in its own source first. */
export function mainLine(printed: string): string {
  const [error] = /^\w*Error(?: \[\w+\])?: .*/m.exec(printed) ?? [];
  return error ?? (printed.trim().split('\n', 1)[0] as string).trim();
}

/** How SQLite's URIs name what may be done to a file; `rwc` makes it where it is missing. */
export type SqliteAccess = 'mode=rwc' | 'mode=rw' | 'mode=ro' | 'immutable=1';

export interface SqliteRequest {
  readonly path: string;
  readonly access: SqliteAccess;
  readonly env: NodeJS.ProcessEnv;
}

export interface SqliteCommand {
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
}

/** The message if there is no driver. */
export const NO_SQLITE = 'SQLite cannot be loaded';

/** Both drivers have what is used of them under the same names; one of them would wait for a lock. */
const OPEN = `
  const sqlite = require(process.argv[1]);
  const Sqlite = sqlite.Database ?? sqlite.DatabaseSync ?? sqlite;
  const database = new Sqlite(process.argv[2], { timeout: 0 });
`;

/**
 * The command that runs code with an open `database` in a process of its own, by the driver that the
 * runner uses. Null where there is none.
 */
export async function sqliteCommand(code: string, { path, access, env }: SqliteRequest): Promise<SqliteCommand | null> {
  const module = await findSqliteModule();
  if (module === null) return null;
  const place = `${pathToFileURL(path)}?${access}`;
  return {
    command: [findOwnNode(), '-e', `${OPEN}${code}`, module, place],
    env: { ...env, SQLITE_USE_URI: '1' },
  };
}

async function findSqliteModule(): Promise<string | null> {
  try {
    const { driver } = await findDriver();
    if (driver.name === 'node:sqlite') return driver.name;
    return createRequire(import.meta.filename).resolve(driver.name);
  } catch {
    return null;
  }
}

/** Nothing can be tried: not even a folder could be made. */
export class UnwritablePlace extends Error {}

/** Lets something be tried in a folder of its own that is gone afterwards. */
export async function inScratchFolder<T>(parent: string, use: (folder: string) => T | Promise<T>): Promise<T> {
  const folder = makeScratchFolder(parent);
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** By a name that is hidden from a pass. */
function makeScratchFolder(parent: string): string {
  try {
    return mkdtempSync(join(parent, '.doctor-'));
  } catch (error) {
    // After the comma stands the name of a folder that does not exist.
    const [reason] = (error as Error).message.split(',', 1);
    throw new UnwritablePlace(`nothing can be written to ${parent} (${reason})`);
  }
}

export interface SeenProcess {
  readonly pid: number;
  readonly program: string;
  readonly uid: number;
  readonly threads: number;
}

/** The processes that `/proc` shows; none where it is missing. */
export function listProcesses(): SeenProcess[] {
  return listPids().flatMap((pid) => readProcess(pid) ?? []);
}

/** Null for one that is gone, or that this user may not look into. */
function readProcess(pid: number): SeenProcess | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const program = readFileSync(`/proc/${pid}/comm`, 'latin1').trim();
    const threads = Number(/^Threads:\s+(\d+)/m.exec(status)?.[1] ?? 1);
    return { pid, program, uid: statSync(`/proc/${pid}`).uid, threads };
  } catch {
    return null;
  }
}
