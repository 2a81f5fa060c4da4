import { expect, onTestFinished } from 'vitest';
import { cronPlace } from './cron-place.ts';
import { startCommand } from './start-command.ts';
import { until } from './until.ts';

export interface Dashboard {
  /** `http://127.0.0.1:38211/` */
  readonly url: string;
  /** Asks for `/api/…` as this user's own page does: what changes something has the header that it needs. */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** Ends it as Ctrl-C does; it must do so in peace. */
  stop(): Promise<void>;
}

/** `runner web` on any free port, until the test is over. */
export async function startDashboard(root: string, ...options: readonly string[]): Promise<Dashboard> {
  const started = startCommand(['--root', root, 'web', '--port', '0', ...options], cronPlace(root));
  let isOver = false;
  const stop = async (): Promise<void> => {
    if (isOver) return;
    isOver = true;
    started.kill('SIGINT');
    const { status, stderr } = await started.ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  };
  onTestFinished(stop);
  await until('the dashboard listens', () => /http:\S+/.test(started.printed()));
  const url = /http:\S+/.exec(started.printed())?.[0] as string;
  return { url, ask: (path, init) => askAsPage(url, path, init), stop };
}

async function askAsPage(url: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (typeof init.body === 'string' && !headers.has('content-type')) headers.set('content-type', 'application/json');
  const session = await fetch(new URL('api/session', url));
  const { csrf } = (await session.json()) as { csrf: string };
  headers.set('x-csrf-token', csrf);
  return await fetch(new URL(path.replace(/^\//, ''), url), { ...init, headers });
}
