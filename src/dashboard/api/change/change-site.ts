import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';
import { z } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import { findScriptToRun } from '../../../discovery/find-script.ts';
import type { Script } from '../../../discovery/script.ts';
import {
  acknowledgeIncidents,
  closeIncidents,
  endMutes,
  noSuchIncident,
  readMutes,
  setMutes,
} from '../../../monitor/alert/incidents.ts';
import { findPause, pause, resume } from '../../../queue/pauses.ts';
import { incidentRecord } from '../../../report/model/incidents.ts';
import { muteRecord, pauseRecord, toPauses } from '../../../report/model/pauses.ts';
import { findPausables, findPaused, refuseUnknownMutes } from '../../../report/names.ts';
import { loadSettings } from '../../../settings/load.ts';
import type { Pause } from '../../../store/statements/pauses.ts';
import { field } from '../../../system/base/record.ts';
import { checkLiveness, machineName } from '../../../system/process/identity.ts';
import type { LiveSite } from '../../site.ts';
import { answer, idSchema, textSchema } from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf, schemaOfField } from '../schema-of.ts';
import { durationSchema, jsonBody, optional, optionalJsonBody, said } from './bodies.ts';

const patternParam = z.object({
  pattern: textSchema.openapi({ example: 'hourly/clean-tmp', description: 'Slashes are not encoded' }),
});

const pauseRoute = defineRoute('manage', {
  method: 'put',
  path: '/api/pauses/{pattern{.+}}',
  summary: 'Pauses a tier, a script, `queue`, jobs by name or pattern, or everything (`*`); replaces an earlier pause',
  request: {
    params: patternParam,
    ...optionalJsonBody(
      z.strictObject({
        for: optional(durationSchema).openapi({ description: 'How long. Default: until it is resumed' }),
        fail: optional(z.boolean()).openapi({ description: 'Only for jobs of the queue: due jobs fail' }),
      }),
    ),
  },
  responses: { 200: jsonResponse('The pause', schemaOf(pauseRecord)) },
});

const resumeRoute = defineRoute('manage', {
  method: 'delete',
  path: '/api/pauses/{pattern{.+}}',
  summary: 'Ends a pause, if there is one',
  request: { params: patternParam },
  responses: {
    200: jsonResponse(
      'What was resumed',
      z.object({
        resumed: z.array(z.string()),
        pause: schemaOfField(field.one(pauseRecord).orNull.about('A wider pause that still applies')),
      }),
    ),
  },
});

const muteRoute = defineRoute('manage', {
  method: 'put',
  path: '/api/mutes/{pattern{.+}}',
  summary: 'Silences incidents of subjects with matching names for a while; replaces a mute of the same pattern',
  request: {
    params: patternParam,
    ...optionalJsonBody(
      z.strictObject({
        for: optional(durationSchema).openapi({ description: 'How long. Default: until it is unmuted' }),
      }),
    ),
  },
  responses: { 200: jsonResponse('The mute', schemaOf(muteRecord)) },
});

const unmuteRoute = defineRoute('manage', {
  method: 'delete',
  path: '/api/mutes/{pattern{.+}}',
  summary: 'Ends a mute, if there is one',
  request: { params: patternParam },
  responses: { 200: jsonResponse('The patterns that were unmuted', z.object({ unmuted: z.array(z.string()) })) },
});

const acknowledgeRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/incidents/{id}/acknowledge',
  summary: 'Ends the daily reminders of an open incident; it may be acknowledged already',
  request: { params: z.object({ id: idSchema }) },
  responses: { 200: jsonResponse('The incident', schemaOf(incidentRecord)) },
});

const closeRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/incidents/{id}/close',
  summary: 'Ends an open incident; whoever was told of it is told once that it was closed',
  request: { params: z.object({ id: idSchema }) },
  responses: { 200: jsonResponse('The incident', schemaOf(incidentRecord)) },
});

const runRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/runs',
  summary: 'Starts a script now, as `npx folder-runner run` does, and does not wait for its end',
  request: jsonBody(
    z.strictObject({
      script: z.string().min(1).max(1000).openapi({ example: 'hourly/clean-tmp' }),
      alert: optional(z.boolean()).openapi({
        description: 'False: somebody watches the run, and nobody is told if it fails. Default: true',
      }),
    }),
  ),
  responses: {
    202: jsonResponse('The script was started', z.object({ script: z.string(), pid: z.int() })),
  },
});

/** Pauses, mutes, what is known of an incident, and running a script now. */
export function addSiteChangeRoutes(api: Api): void {
  addPauseRoutes(api);
  addMuteRoutes(api);
  api.openapi(acknowledgeRoute, async (c) => {
    const { site, caller } = c.var;
    const word = String(c.req.valid('param').id);
    const [incident] = await site.changes.use((shared) =>
      shared.change(caller.name, (session) => acknowledgeIncidents(session, word, site.now())),
    );
    if (incident === undefined) throw noSuchIncident(word);
    return answer(c, incidentRecord.toJson(incident));
  });
  api.openapi(closeRoute, async (c) => {
    const { site, caller } = c.var;
    const { id } = c.req.valid('param');
    const [incident] = await site.changes.use((shared) =>
      shared.change(caller.name, (session) => closeIncidents(session, [id], site.now())),
    );
    return answer(c, incidentRecord.toJson(incident as NonNullable<typeof incident>));
  });
  api.openapi(runRoute, async (c) => {
    const { site, caller } = c.var;
    return answer(c, await requestRun(site, c.req.valid('json'), caller.name), 202);
  });
}

function addPauseRoutes(api: Api): void {
  api.openapi(pauseRoute, async (c) => {
    const { site, caller } = c.var;
    const wish = said(c.req.valid('json'));
    const at = site.now();
    toPauses([], wish, at);
    const { pattern } = c.req.valid('param');
    const find = async () => await site.read((found) => findPausables(found, [pattern]));
    const [wanted] = toPauses(pattern === '*' ? [pattern] : await find(), wish, at) as [Pause];
    await site.changes.use((shared) => shared.change(caller.name, (session) => pause(session, wanted)));
    return answer(c, pauseRecord.toJson(wanted));
  });
  api.openapi(resumeRoute, async (c) => {
    const { site, caller } = c.var;
    const { pattern } = c.req.valid('param');
    const at = site.now();
    const pauses = await site.read((found) => found.pauses());
    const find = async () => await site.read((found) => findPaused(found, [pattern]));
    const [name = pattern] = pattern === '*' ? [pattern] : await find();
    const resumed = await site.changes.use((shared) =>
      shared.change(caller.name, (session) => resume(session, name, at)),
    );
    const rest = pauses.filter((each) => !resumed.includes(each.name));
    const wider = findPause(rest, name);
    return answer(c, { resumed, pause: wider && pauseRecord.toJson(wider) });
  });
}

function addMuteRoutes(api: Api): void {
  api.openapi(muteRoute, async (c) => {
    const { site, caller } = c.var;
    const { for: duration } = said(c.req.valid('json'));
    const { pattern } = c.req.valid('param');
    const mutes = readMutes([pattern], duration, site.now());
    await site.read((found) => refuseUnknownMutes(found, [pattern]));
    await site.changes.use((shared) => shared.change(caller.name, (session) => setMutes(session, mutes)));
    return answer(c, muteRecord.toJson(mutes[0] as (typeof mutes)[number]));
  });
  api.openapi(unmuteRoute, async (c) => {
    const { site, caller } = c.var;
    const { pattern } = c.req.valid('param');
    const ended = await site.changes.use((shared) =>
      shared.change(caller.name, (session) => endMutes(session, [pattern], site.now())),
    );
    return answer(c, { unmuted: ended.map(({ name }) => name) });
  });
}

/**
 * Starts a script now by a runner of its own, which goes on whatever becomes of the dashboard. Who asked for it is
 * recorded before.
 *
 * @throws {NoSuchName} if there is no such script
 * @throws {HTTPException} if it is refused, or its tier is at work
 */
async function requestRun(
  site: LiveSite,
  { script: name, alert }: { readonly script: string; readonly alert?: boolean | null | undefined },
  actor: string,
): Promise<{ script: string; pid: number }> {
  const script = await findRunnable(site, name);
  await refuseWhileBusy(site, script.tier);
  await site.changes.use((shared) =>
    shared.change(actor, ({ events }) =>
      events.record([{ at: site.now(), event: 'run-requested', detail: script.name }]),
    ),
  );
  return { script: script.name, pid: await startRunner(site, script.name, alert ?? true) };
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
    // Of many machines each has the tier for itself.
    const here = store === null || store.fleet === null ? undefined : machineName();
    return (await store?.workers.running(tier, here)) ?? [];
  });
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

async function startRunner({ root, env, distFolder }: LiveSite, script: string, alert: boolean): Promise<number> {
  const option = alert ? '--alert' : '--no-alert';
  const words = [join(distFolder, 'bin.cjs'), '--root', root, 'run', option, '--', script];
  const child = spawn(process.execPath, words, {
    cwd: root,
    env: { ...cronEnvironment(env), RUNNER_CALLED_BY: 'person' },
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

const kept = /^(?:LANG|LANGUAGE|LC_.*|RUNNER_.*)$/;

/** As cron gives it to its calls, with the variables of the runner's own that the dashboard was given. */
function cronEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { username } = userInfo();
  const own = Object.entries(env).filter(([name]) => kept.test(name));
  const fixed = { HOME: homedir(), LOGNAME: username, USER: username, SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
  return { ...Object.fromEntries(own), ...fixed };
}
