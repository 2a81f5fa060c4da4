import { spawn } from 'node:child_process';
import { join } from 'node:path';

/** The built command, as a user's crontab runs it. */
export const commandPath = join(import.meta.dirname, '../../dist/bin.cjs');

export interface CommandResult {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly cwd: string;
  /** All of its environment; default: cron's bare one. */
  readonly env?: Readonly<Record<string, string>>;
}

/** What cron gives: no locale, no terminal, a short PATH. */
export const cronEnvironment: Readonly<Record<string, string>> = {
  HOME: process.env['HOME'] ?? '/root',
  LOGNAME: 'somebody',
  SHELL: '/bin/sh',
  PATH: '/usr/bin:/bin',
};

/** Runs the command to its end. */
export function runCommand(args: readonly string[], options: CommandOptions): Promise<CommandResult> {
  return startCommand(args, options).ended;
}

/** Starts the command, for tests that do something to it while it runs. */
export function startCommand(args: readonly string[], { cwd, env = cronEnvironment }: CommandOptions) {
  const child = spawn(process.execPath, [commandPath, ...args], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const ended = new Promise<CommandResult>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode, signal) => resolve({ exitCode, signal, ...output }));
  });
  return { pid: child.pid as number, output, ended };
}
