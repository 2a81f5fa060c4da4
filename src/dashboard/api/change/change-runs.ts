import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { cronEnv } from '../../../checks/host/crontab-calls.ts';
import { findScriptToRun } from '../../../discovery/find-script.ts';
import type { Script } from '../../../discovery/script.ts';
import { runRecord } from '../../../report/model/runs/run.ts';
import { selectRunOfProcess, selectStopped } from '../../../report/model/runs/runs.ts';
import { findRun } from '../../../report/names.ts';
import { loadSettings } from '../../../settings/load.ts';
import { isGone } from '../../../store/statements/workers.ts';
import type { Store } from '../../../store/store.ts';
import { printableLine } from '../../../system/base/text.ts';
import { machineName } from '../../../system/process/identity.ts';
import { reconcile } from '../../../worker/recovery/reconcile.ts';
import { stopRun } from '../../../worker/recovery/stop-run.ts';
import type { LiveSite } from '../../site.ts';
import { answer, idSchema } from '../fields.ts';
import { type Api, type ApiEnv, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf } from '../schema-of.ts';
import { jsonBody, optional, optionalJsonBody } from './bodies.ts';
import { change } from './change-site.ts';

/** The operating system takes no NUL. */
const argumentSchema = z
  .string()
  .max(10_000)
  .regex(/^[^\0]*$/, 'must be text without NUL');

const startedSchema = z.object({
  script: z.string().openapi({ example: 'hourly/clean-tmp' }),
  pid: z.int(),
  run: z.int().nullable().openapi({ description: 'The number of the run; null: it is not known yet' }),
  reason: z
    .string()
    .nullable()
    .openapi({ description: 'Why the number is not known; null: it is', example: 'It has not begun yet.' }),
});

const wantedRun = z.strictObject({
  script: z.string().min(1).max(1000).openapi({ example: 'hourly/clean-tmp' }),
  args: optional(z.array(argumentSchema).max(100)).openapi({
    description: 'Its arguments, which other users of the host see in `ps`. The run is not tried again',
    example: ['--all'],
  }),
  alert: optional(z.boolean()).openapi({
    description: 'False: somebody watches the run, and nobody is told if it fails. Default: true',
  }),
});

const runRoute = defineRoute('run', {
  operationId: 'startRun',
  method: 'post',
  path: '/api/runs',
  summary: 'Starts a script now, as `npx folder-runner run` does, and does not wait for its end',
  request: jsonBody(wantedRun),
  responses: {
    202: jsonResponse('The script was started; `Location` leads to its run', startedSchema),
  },
});

const meantRun = z.strictObject({
  startedAt: optional(z.iso.datetime()).openapi({
    description: "When the run began that is meant: the number of one that was deleted may be another one's by now",
  }),
});

const stopRoute = defineRoute('run', {
  operationId: 'stopRun',
  method: 'post',
  path: '/api/runs/{id}/stop',
  summary: 'Stops a run, as `npx folder-runner stop` does, and does not wait for its end',
  request: { params: z.object({ id: idSchema }), ...optionalJsonBody(meantRun) },
  responses: { 202: jsonResponse('The run, which may still go on', schemaOf(runRecord)) },
});

/** Running a script now, and stopping a run. */
export function addRunChangeRoutes(api: Api): void {
  api.openapi(stopRoute, async (c) =>
    answer(c, await requestStop(c, c.req.valid('param').id, c.req.valid('json')), 202),
  );
  api.openapi(runRoute, async (c) => {
    const started = await requestRun(c, c.req.valid('json'));
    // Relative to this address, which a proxy may have shortened.
    if (started.run !== null) c.header('location', `runs/${started.run}`);
    return answer(c, started, 202);
  });
}

/**
 * Starts a script now with a runner of its own, which outlives the dashboard. Records first who asked for it.
 *
 * @throws {NoSuchName} if there is no such script
 * @throws {HTTPException} if it is refused, or its tier is at work
 */
async function requestRun(
  c: Context<ApiEnv>,
  asked: z.infer<typeof wantedRun>,
): Promise<z.infer<typeof startedSchema>> {
  const { site, caller } = c.var;
  const { name: script, tier } = await findRunnable(site, asked.script);
  await refuseWhileBusy(site, tier);
  await change(c, ({ events }, at) => events.record([{ at, event: 'run-requested', detail: script }]));
  const options = [asked.alert === false ? '--no-alert' : '--alert', '--', script, '--', ...(asked.args ?? [])];
  const sinceMs = site.now();
  const runner = await startRunner(site, options, caller.name);
  const pid = runner.pid as number;
  const started = { script, pid, host: machineName(), sinceMs };
  return { script, pid, ...(await findStarted(site, runner, started)) };
}

/** A run is seen once it has lasted 0.1 s or has ended; before that, its runner starts. */
const BEGINNING_MS = 5_000;
const LOOK_MS = 50;

/** The run of a runner that was started now. */
async function findStarted(site: LiveSite, runner: ChildProcess, started: Parameters<typeof selectRunOfProcess>[1]) {
  const find = () => site.read(async ({ view }) => selectRunOfProcess(await view(), started));
  const deadline = performance.now() + BEGINNING_MS;
  for (;;) {
    // Looked at first: what it has recorded before its end is seen below.
    const hasEnded = runner.exitCode !== null || runner.signalCode !== null;
    const run = await find();
    if (run !== null) return { run, reason: null };
    if (hasEnded)
      return { run, reason: `It has ended without a run; why ${started.script} was not run is told by its page.` };
    if (performance.now() > deadline) return { run, reason: 'It has not begun yet.' };
    await wait(LOOK_MS);
  }
}

async function requestStop(c: Context<ApiEnv>, id: number, { startedAt }: z.infer<typeof meantRun>) {
  const { site, caller } = c.var;
  const seen = await site.read(async ({ view }) => findRun(await view(), id));
  const meant = { id, startedAtMs: startedAt == null ? seen.startedAtMs : Date.parse(startedAt) };
  const wish = { by: caller.name, at: site.now() };
  const isWatched = await site.changes.use((shared) => shared.ask((store) => stopRun(store, meant, wish)));
  // It takes as long as the processes of the run take to end.
  if (!isWatched) site.changes.hold(endHere(site));
  return runRecord.toJson(await site.read(async ({ view }) => selectStopped(await view(), seen)));
}

/** Its worker is dead: nobody else ends the run soon. */
async function endHere(site: LiveSite): Promise<void> {
  const { root, state, env } = site;
  try {
    const settings = await loadSettings(root, env);
    const recover = (store: Store) => reconcile({ root, state, settings }, store, site.now());
    const { notes } = await site.changes.use((shared) => shared.ask(recover));
    for (const note of notes) process.stderr.write(`runner: ${printableLine(note)}\n`);
  } catch (error) {
    process.stderr.write(`runner: a run without its worker could not be ended: ${printableLine(String(error))}\n`);
  }
}

async function findRunnable({ root, env }: LiveSite, name: string): Promise<Script> {
  const settings = await loadSettings(root, env);
  const { script } = await findScriptToRun({ root, settings }, name);
  if (script.refusals.length === 0) return script;
  throw new HTTPException(409, { message: `${script.name} is refused: ${script.refusals.join(' ')}` });
}

/** Its call would end at once, and nobody would see why. */
async function refuseWhileBusy(site: LiveSite, tier: string): Promise<void> {
  const workers = await site.read(async ({ store }) => {
    // On several machines, each has the tier for itself.
    const here = store === null || store.fleet === null ? undefined : machineName();
    return (await store?.workers.running(tier, here)) ?? [];
  });
  const busy = workers.find((worker) => !isGone(worker));
  if (busy === undefined) return;
  const since = new Date(busy.started_at).toISOString();
  throw new HTTPException(409, {
    message: `Another pass of ${tier} is running since ${since} (pid ${busy.pid}); wait for its end.`,
  });
}

/** @param by in whose name */
async function startRunner(
  { root, env, distFolder }: LiveSite,
  options: readonly string[],
  by: string,
): Promise<ChildProcess> {
  const words = [join(distFolder, 'bin.cjs'), '--root', root, 'run', ...options];
  const child = spawn(process.execPath, words, {
    cwd: root,
    env: { ...cronEnvironment(env), RUNNER_CALLED_BY: 'person', RUNNER_CALLER: by },
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
  return child;
}

const kept = /^(?:LANG|LANGUAGE|LC_.*|RUNNER_.*)$/;

/** As cron gives it to its calls, with the variables of the runner's own that the dashboard was given. */
function cronEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = Object.entries(env).filter(([name]) => kept.test(name));
  const ofCron = cronEnv({ ...env, HOME: env.HOME ?? homedir() });
  return { ...Object.fromEntries(own), ...ofCron, USER: ofCron.LOGNAME };
}
