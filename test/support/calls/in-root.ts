import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import packageJson from '../../../package.json' with { type: 'json' };
import type { runCommandLine } from '../../../src/commands/cli.ts';
import type { CommandContext } from '../../../src/commands/shared/context.ts';
import { engine } from '../engines/engines.ts';
import { commandPath, type Ended, type Place } from './run-command.ts';
import { cronEnv } from './run-pass.ts';
import { startCommand } from './start-command.ts';

/** Commands that read and write the log and print: nothing of them needs a process of its own. */
const inProcess =
  /^(acknowledge|activity|add|check|claim|cron|import|incidents|init|job|jobs|kick|list|metrics|mute|pause|repeat|report|resume|show|status|unmute|why)$/;

/** Cron's PATH, where the crontab of whoever runs the tests cannot be read. */
export const pathWithoutCrontab = `${join(import.meta.dirname, 'bin')}:${cronEnv('').PATH}`;

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
