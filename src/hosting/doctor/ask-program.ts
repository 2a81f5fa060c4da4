import { spawn } from 'node:child_process';
import { errorLine } from './error-line.ts';

export interface ProgramRequest {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly timeoutMs: number;
}

export interface Answer {
  /** Null: it was not started, or ended by a signal. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** What kept it from an answer: not found, no answer in time; null: it ended by itself. */
  readonly failure: string | null;
  readonly isMissing: boolean;
}

const MOST_CHARACTERS = 64 * 1024;

/** Runs another program and never waits longer than it is told to, whatever the program does. */
export function askProgram(
  [command, ...args]: readonly [string, ...string[]],
  { env, cwd, timeoutMs }: ProgramRequest,
): Promise<Answer> {
  return new Promise((resolve) => {
    const said = { stdout: '', stderr: '' };
    const child = spawn(command, args, {
      env,
      ...(cwd !== undefined && { cwd }),
      // A group of its own: what a shell has started goes with it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const answer = (exitCode: number | null, failure: string | null, isMissing = false): void => {
      clearTimeout(timer);
      // A program in the middle of a call to a dead network drive cannot even be killed.
      child.unref();
      child.stdout.destroy();
      child.stderr.destroy();
      resolve({ exitCode, ...said, failure, isMissing });
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
    child.once('error', (error: NodeJS.ErrnoException) =>
      answer(null, error.message, error.code === 'ENOENT'),
    );
    child.once('close', (code, signal) =>
      answer(code, signal === null ? null : `ended by ${signal}`),
    );
  });
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // Gone meanwhile.
  }
}

/** What went wrong, in one line: an error, else what the program said first, else how it ended. */
export function describeFailure({ exitCode, stderr, stdout, failure }: Answer): string {
  const printed = `${stderr}\n${stdout}`.trim();
  const said = errorLine(printed) ?? printed.split('\n', 1)[0]?.trim();
  return failure ?? (said || `exit code ${exitCode}, no message`);
}
