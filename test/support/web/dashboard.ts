import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { startCommand } from '../calls/start-command.ts';
import { openTunnel } from '../machines/tunnel.ts';
import { cronPlace } from '../places/cron-place.ts';
import { until } from '../until.ts';

export interface Dashboard {
  /** As `runner web` has printed it, with the port of a tunnel: `http://runner-0123456789abcdef.localhost:38211/` */
  readonly url: string;
  /** Asks for `/api/…` as the owner's own page does: what changes something has the header that it needs. */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** Ends it as Ctrl-C does; it must do so in peace. */
  stop(): Promise<void>;
}

/** `runner web` at its socket, and a tunnel to it, until the test is over. */
export async function startDashboard(root: string, ...options: readonly string[]): Promise<Dashboard> {
  const started = startCommand(['--root', root, 'web', ...options], cronPlace(root));
  let isOver = false;
  const stop = async (): Promise<void> => {
    if (isOver) return;
    isOver = true;
    started.kill('SIGINT');
    const { status, stderr } = await started.ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  };
  onTestFinished(stop);
  const url = await reachDashboard(root, () => started.printed());
  return { url, ask: (path, init) => askAsPage(url, path, init), stop };
}

/** The address of one that listens at the socket of this root, through a tunnel. */
export async function reachDashboard(root: string, printed: () => string): Promise<string> {
  await until('the dashboard listens', () => /http:\S+\n/.test(printed()));
  const url = new URL(/http:\S+/.exec(printed())?.[0] as string);
  url.port = String(await openTunnel(join(root, '.runner/web.sock')));
  return url.href;
}

async function askAsPage(url: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (typeof init.body === 'string' && !headers.has('content-type')) headers.set('content-type', 'application/json');
  const session = await fetch(new URL('api/session', url));
  const { csrf } = (await session.json()) as { csrf: string };
  headers.set('x-csrf-token', csrf);
  return await fetch(new URL(path.replace(/^\//, ''), url), { ...init, headers });
}
