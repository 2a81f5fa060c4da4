import { type ChildProcess, spawn } from 'node:child_process';
import { onTestFinished } from 'vitest';
import { engine } from '../engines/engines.ts';
import { byCron, commandPath, type Ended, nodeCache, type Place, withCompileCache } from './run-command.ts';

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
