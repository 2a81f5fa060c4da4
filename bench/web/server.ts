import { spawn } from 'node:child_process';
import { runner } from '../root.ts';

export interface Server {
  readonly pid: number;
  readonly url: string;
  /** The session's. */
  readonly headers: { readonly cookie: string };
  /** From its start to its first answer. */
  readonly readyMs: number;
  stop(): Promise<void>;
}

/** A server of the dashboard that nobody has asked for anything, and what it has printed. */
export async function begin(root: string) {
  const child = spawn(process.execPath, [runner, 'web', '--port', '0'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  const printed = await new Promise<string>((resolve) => child.stdout.setEncoding('utf8').once('data', resolve));
  const stop = async (): Promise<void> => {
    child.kill('SIGINT');
    await ended;
  };
  return { pid: child.pid as number, printed, stop };
}

/** A server of the dashboard, with somebody logged in. */
export async function serve(root: string): Promise<Server> {
  const startMs = performance.now();
  const { pid, printed, stop } = await begin(root);
  const { port, hash } = new URL(/http:\S+/.exec(printed)?.[0] as string);
  const url = `http://127.0.0.1:${port}/`;
  await (await fetch(url)).text();
  const readyMs = performance.now() - startMs;
  const headers = { cookie: await logIn(url, hash.replace('#key=', '')) };
  return { pid, url, headers, readyMs, stop };
}

async function logIn(url: string, token: string): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${url}api/session`, { method: 'POST', headers, body: JSON.stringify({ token }) });
  return String(answer.headers.get('set-cookie')).split(';')[0] as string;
}
