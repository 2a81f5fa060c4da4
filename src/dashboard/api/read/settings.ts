import { z } from '@hono/zod-openapi';
import { type ChannelSettings, presets } from '../../../settings/channels.ts';
import { findSettingsFile, loadSettings } from '../../../settings/load.ts';
import { ALERTS_VARIABLE, defaultSettings, type ScriptOptions, type Settings } from '../../../settings/settings.ts';
import { UsageError } from '../../../system/base/errors.ts';
import { hostZone } from '../../../system/base/zone.ts';
import { OVERRIDE_VARIABLE } from '../../../system/place/trust.ts';
import { answer, knownNumber, knownText } from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';

export const optionsSchema = z.object({
  description: z.string().optional(),
  timeoutMs: z.number().optional(),
  retries: z.int().optional(),
  retryDelay: z.object({ firstMs: z.number(), factor: z.number(), longestMs: z.number() }).optional(),
  onCrash: z.enum(['retry', 'skip', 'fail']).optional(),
  offline: z.enum(['run', 'wait']).optional(),
  memoryBytes: z.number().optional(),
  warnRssBytes: z.number().optional(),
  maxRssBytes: z.number().optional(),
  rssSustainMs: z.number().optional(),
  maxOutputBytes: z.number().optional(),
  nice: z.int().optional(),
  env: z.array(z.string()).optional().openapi({ description: 'Names of variables' }),
  isolate: z.boolean().optional(),
  alertAfter: z.int().optional(),
  tags: z.array(z.string()).optional(),
  host: z.array(z.string()).optional().openapi({ description: 'The machines that it runs on: globs' }),
  everyHost: z.boolean().optional().openapi({ description: 'Each machine runs it' }),
  schedule: z.string().optional().openapi({ description: 'When it runs, within its tier' }),
  timezone: z.string().optional(),
  reboot: z.boolean().optional().openapi({ description: 'It runs once after each boot' }),
  isPinged: z.boolean().openapi({ description: 'A service is called with each run; its URL is a secret' }),
});

const channelSchema = z
  .object({
    name: z.string(),
    kind: z.enum(['mail', 'webhook', 'command']),
    preset: z.enum(presets).nullable(),
    severity: z.enum(['warning', 'critical']).nullable(),
    tags: z.array(z.string()),
  })
  .openapi('Channel');

const inForceSchema = z
  .object({
    defaults: optionsSchema,
    tiers: z.record(
      z.string(),
      z.object({
        ...optionsSchema.shape,
        concurrency: z.int().optional(),
        catchUp: z.enum(['once', 'skip']).optional(),
      }),
    ),
    scripts: z.record(z.string(), optionsSchema),
    timezone: knownText.openapi({ description: 'The zone of all times; null: that of the machine' }),
    concurrency: z.int(),
    exitZeroOnFailure: z.boolean(),
    env: z.array(z.string()).openapi({ description: 'Names of the variables that scripts get; never their values' }),
    umask: z.string(),
    retention: z.object({ succeededMs: z.number(), failedMs: z.number(), maxDatabaseBytes: z.number() }),
    maxOutputBytes: z.number(),
    limits: z.object({
      maxLoad: knownNumber,
      minFreeMemoryBytes: knownNumber,
      maxProcesses: knownNumber,
      maxWaitMs: z.number(),
    }),
    queue: z.object({
      leaseMs: z.number(),
      archive: z.record(z.string(), z.enum(['keep', 'keep-failed', 'remove'])),
      groupLimit: knownNumber,
      childJobs: z.number(),
      childMemoryBytes: z.number(),
      missedCap: z.number(),
    }),
    workers: z.object({ max: z.int() }),
    allowUnsafe: z.boolean(),
    secrets: z.array(z.string()).openapi({ description: 'Names of variables whose values are masked' }),
    alerts: z.object({
      channels: z.array(channelSchema),
      after: z.int(),
      remindMs: z.number(),
      quiet: z.object({ from: z.int(), until: z.int() }).nullable(),
      perHour: z.int(),
    }),
    checks: z.record(z.string(), knownNumber),
    report: z.object({ html: knownText, withOutput: z.boolean(), protect: z.boolean() }),
  })
  .openapi('SettingsInForce');

const settingsRoute = defineRoute('read', {
  method: 'get',
  path: '/api/settings',
  summary: 'The settings in force, without secrets: no values of variables, no addresses',
  request: { query: z.strictObject({}) },
  responses: {
    200: jsonResponse(
      'The settings',
      z
        .object({
          root: z.string(),
          version: z.string(),
          nodeVersion: z.string(),
          zone: z.string().openapi({ description: 'The time zone of the server' }),
          problem: knownText.openapi({
            description: 'Errors in the settings; nothing is started until they are fixed',
          }),
          file: knownText.openapi({ description: '`runner.config.ts`; null: there is none' }),
          settings: inForceSchema,
          standard: inForceSchema.openapi({ description: 'The defaults' }),
          changed: z
            .array(
              z.object({
                path: z.array(z.string()).openapi({ example: ['queue', 'leaseMs'] }),
                from: z.string().openapi({ description: 'The file or the variable where it is set' }),
              }),
            )
            .openapi({ description: 'The values that differ from the defaults' }),
        })
        .openapi('Settings'),
    ),
  },
});

export function addSettingsRoutes(api: Api): void {
  api.openapi(settingsRoute, async (c) => {
    const { root, version, env } = c.var.site;
    const { settings, problem } = await loadOrTell(root, env);
    const file = findSettingsFile(root);
    const ofFile =
      file === null ? defaultSettings : (await loadOrTell(root, { ...env, [ALERTS_VARIABLE]: '' })).settings;
    const [inForce, standard] = [settingsToJson(settings), settingsToJson(defaultSettings)];
    const changed = findChanged(inForce, standard).map((path) => ({ path, from: sourceOf(path, file, ofFile) }));
    const place = { root, version, nodeVersion: process.versions.node, zone: hostZone() };
    return answer(c, { ...place, problem, file, settings: inForce, standard, changed });
  });
}

async function loadOrTell(root: string, env: NodeJS.ProcessEnv) {
  try {
    return { settings: await loadSettings(root, env), problem: null };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { settings: defaultSettings, problem: error.message };
  }
}

/** The paths of all values that are others than by standard; a list is one value. */
function findChanged(value: unknown, standard: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (!isGroup(value)) return JSON.stringify(value) === JSON.stringify(standard) ? [] : [path];
  const others = isGroup(standard) ? standard : {};
  return Object.entries(value).flatMap(([key, each]) => findChanged(each, others[key], [...path, key]));
}

function isGroup(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What variables say counts only where the file says nothing. */
function sourceOf([group, key]: readonly string[], file: string | null, ofFile: Settings): string {
  const isOfVariable =
    (group === 'alerts' && key === 'channels' && ofFile.alerts.channels.length === 0) || file === null;
  if (!isOfVariable && file !== null) return file;
  return group === 'allowUnsafe' ? OVERRIDE_VARIABLE : ALERTS_VARIABLE;
}

/** Each by its name: what settings are to come may be secrets. */
function settingsToJson(settings: Settings) {
  const { defaults, tiers, scripts, timezone, concurrency, exitZeroOnFailure, env, umask, retention } = settings;
  const { maxOutputBytes, limits, queue, workers, allowUnsafe, secrets, alerts, checks, report } = settings;
  const { channels, after, remindMs, quiet, perHour } = alerts;
  return {
    defaults: withoutPing(defaults),
    tiers: mapOptions(tiers),
    scripts: mapOptions(scripts),
    ...{
      timezone,
      concurrency,
      exitZeroOnFailure,
      retention,
      maxOutputBytes,
      limits,
      queue,
      workers,
      allowUnsafe,
      checks,
      secrets,
    },
    env: Object.keys(env),
    umask: umask.toString(8).padStart(3, '0'),
    alerts: { channels: channels.map(channelToJson), after, remindMs, quiet, perHour },
    report: { html: report.html, withOutput: report.withOutput, protect: report.protect },
  };
}

function mapOptions<Options extends ScriptOptions>(all: Readonly<Record<string, Options>>) {
  return Object.fromEntries(Object.entries(all).map(([name, options]) => [name, withoutPing(options)]));
}

/** Whoever knows the URL of a ping can tell the service that all is well. */
export function withoutPing<Options extends ScriptOptions>({ ping, ...options }: Options) {
  return { ...options, isPinged: ping !== undefined };
}

/** Where it sends to may be a secret itself: the URL of a webhook, a command with a token. */
function channelToJson({ name, kind, options, severity, tags }: ChannelSettings) {
  const preset = presets.find((each) => each === options.preset) ?? null;
  return { name, kind, preset, severity, tags };
}
