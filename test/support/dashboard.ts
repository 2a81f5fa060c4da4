import { expect, onTestFinished } from 'vitest';
import { cronPlace } from './cron-place.ts';
import { startCommand } from './start-command.ts';
import { until } from './until.ts';

export interface Dashboard {
  /** `http://127.0.0.1:38211/` */
  readonly url: string;
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
  return { url: /http:\S+/.exec(started.printed())?.[0] as string, stop };
}
