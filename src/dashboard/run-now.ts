import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';
import { HTTPException } from 'hono/http-exception';
import { findScript } from '../discovery/find-script.ts';
import type { Script } from '../discovery/script.ts';
import { loadSettings } from '../settings/load.ts';
import { UsageError } from '../system/base/errors.ts';
import { checkLiveness } from '../system/process/identity.ts';
import type { Site } from './site.ts';

/**
 * Starts a script now by a runner of its own, which goes on whatever becomes of the dashboard. Who asked for it is
 * recorded before.
 *
 * @throws {HTTPException} if there is no such script, it is refused, or its tier is at work
 */
export async function requestRun(site: Site, name: string, actor: string): Promise<{ script: string; pid: number }> {
  const script = await findRunnable(site, name);
  await refuseWhileBusy(site, script.tier);
  await site.changes.use((shared) =>
    shared.change(actor, ({ events }) =>
      events.record([{ at: site.now(), event: 'run-requested', detail: script.name }]),
    ),
  );
  return { script: script.name, pid: await startRunner(site, script.name) };
}

async function findRunnable({ root, env }: Site, name: string): Promise<Script> {
  const settings = await loadSettings(root, env);
  const { script } = await findScript({ root, settings }, name).catch((error: unknown) => {
    throw error instanceof UsageError ? new HTTPException(404, { message: error.message }) : error;
  });
  if (script.refusals.length === 0) return script;
  throw new HTTPException(409, { message: `${script.name} is refused: ${script.refusals.join(' ')}` });
}

/** Its call would end at once, and nobody would see why. */
async function refuseWhileBusy(site: Site, tier: string): Promise<void> {
  const workers = await site.read(async ({ store }) => (await store?.workers.running(tier)) ?? []);
  const busy = workers.find(
    ({ host, boot_id: bootId, pid, pid_start_ticks: startTicks }) =>
      checkLiveness({ host, bootId, pid, startTicks }) !== 'dead',
  );
  if (busy === undefined) return;
  const since = new Date(busy.started_at).toISOString();
  throw new HTTPException(409, {
    message: `Another pass of ${tier} is running since ${since} (pid ${busy.pid}); wait for its end.`,
  });
}

async function startRunner({ root, env, distFolder }: Site, script: string): Promise<number> {
  const words = [join(distFolder, 'bin.cjs'), '--root', root, 'run', '--', script];
  const child = spawn(process.execPath, words, {
    cwd: root,
    env: cronEnvironment(env),
    // A group of its own: what ends the dashboard does not end the run.
    detached: true,
    stdio: 'ignore',
  });
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new HTTPException(503, { message: `No process could be started: ${(error as Error).message}` });
  }
  child.unref();
  return child.pid as number;
}

const kept = /^(?:TZ|LANG|LANGUAGE|LC_.*|RUNNER_.*)$/;

/** As cron gives it to its calls, with the variables of the runner's own that the dashboard was given. */
function cronEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { username } = userInfo();
  const own = Object.entries(env).filter(([name]) => kept.test(name));
  const fixed = { HOME: homedir(), LOGNAME: username, USER: username, SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
  return { ...Object.fromEntries(own), ...fixed };
}
