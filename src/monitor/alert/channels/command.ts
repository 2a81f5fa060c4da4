import { spawn } from 'node:child_process';
import type { ChannelSettings } from '../../../settings/channels.ts';
import { firstLine, lastLine } from '../../../system/base/text.ts';
import { userEnvironment } from '../../../system/process/programs.ts';
import { putIntoWords } from '../wording.ts';
import { describeAborted } from './http.ts';
import { failed, type Outgoing, type SendPlace, type Sent } from './sent.ts';

/**
 * Runs the channel's line by `/bin/sh` in the root. The message stands on stdin, as JSON; nothing of it is part of
 * the line, and the few variables hold no more than one line of text each.
 *
 * @param channel with its values read from the environment
 */
export async function sendByCommand(channel: ChannelSettings, outgoing: Outgoing, place: SendPlace): Promise<Sent> {
  const { message, id } = outgoing;
  const { subject } = putIntoWords(message);
  const names = channel.options.env?.split(' ') ?? [];
  const end = await feedProgram({
    command: '/bin/sh',
    args: ['-c', channel.target],
    cwd: place.root,
    env: {
      ...environmentFor(place.environment, names),
      RUNNER_ROOT: place.root,
      RUNNER_ALERT_ID: id,
      RUNNER_ALERT_EVENT: message.event,
      RUNNER_ALERT_SUBJECT: subject,
    },
    input: `${JSON.stringify(message)}\n`,
    signal: place.signal,
  });
  if (end.reason === null) return { ok: true, answer: `exit code 0${end.said === '' ? '' : `: ${end.said}`}` };
  // 126: it may not be executed. 127: there is no such program.
  return failed(end.reason.replace(/^\/bin\/sh/, 'the command'), end.exitCode === 126 || end.exitCode === 127);
}

/** A program that is given a message on stdin. */
export interface FedProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly input: string | Buffer;
  readonly signal: AbortSignal;
}

export interface ProgramEnd {
  /** Null: it was ended by a signal, or could not be started. */
  readonly exitCode: number | null;
  /** What went wrong, with what it has said last; null: it succeeded. */
  readonly reason: string | null;
  /** What it has said, one line. */
  readonly said: string;
}

/** What a program says is kept for one sentence. */
const MOST_BYTES = 8 * 1024;

/** Runs it, in a process group of its own, which is killed as a whole. */
export async function feedProgram(request: FedProgram): Promise<ProgramEnd> {
  const { command, args, cwd, env, input, signal } = request;
  if (signal.aborted) return { exitCode: null, reason: describeAborted(command, signal), said: '' };
  let output = '';
  const child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  const end = () => killGroup(child.pid);
  signal.addEventListener('abort', end);
  const keep = (piece: Buffer) => {
    output = (output + piece.toString('utf8')).slice(-MOST_BYTES);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  // It need not read what it is given.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  try {
    // What it has left running may hold its output open for ever.
    const ended = await new Promise<{ code: number | null; cause: string | null }>((resolve) => {
      child.on('error', ({ message }) => resolve({ code: null, cause: firstLine(message) }));
      child.on('exit', (code, by) =>
        setImmediate(() => resolve({ code, cause: by === null ? null : `ended by ${by}` })),
      );
    });
    return judge(request, ended, output);
  } finally {
    signal.removeEventListener('abort', end);
    for (const stream of [child.stdout, child.stderr]) stream.destroy();
  }
}

function judge(
  { command, signal }: FedProgram,
  { code, cause }: { readonly code: number | null; readonly cause: string | null },
  output: string,
): ProgramEnd {
  const said = lastLine(output).slice(0, 300);
  if (code === 0) return { exitCode: 0, reason: null, said };
  if (signal.aborted) return { exitCode: code, reason: describeAborted(command, signal), said };
  const how = cause ?? `exit code ${code}`;
  return { exitCode: code, reason: `${command}: ${how}${said === '' ? '' : `: ${said}`}`, said };
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has just ended.
  }
}

/** What scripts get: the same, whoever calls, and no secret but those that are named. */
export function environmentFor(environment: NodeJS.ProcessEnv, names: readonly string[] = []): NodeJS.ProcessEnv {
  const passed = Object.entries(environment).filter(([name]) => name === 'TZ' || names.includes(name));
  return { ...userEnvironment(environment), ...Object.fromEntries(passed) };
}
