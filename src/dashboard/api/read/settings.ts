import { type ChannelSettings, presets } from '../../../settings/channels.ts';
import { findSettingsFile, loadSettings } from '../../../settings/load.ts';
import { ALERTS_VARIABLE, defaultSettings, type ScriptOptions, type Settings } from '../../../settings/settings.ts';
import { UsageError } from '../../../system/base/errors.ts';
import { Field, field, record, shown } from '../../../system/base/record.ts';
import { hostZone } from '../../../system/base/zone.ts';
import { OVERRIDE_VARIABLE } from '../../../system/place/trust.ts';
import { view } from '../view.ts';

const namesOf = (values: Readonly<Record<string, unknown>>): string[] => Object.keys(values);

const optionsRecord = record(null, {
  description: shown.text.like('Removes old files').optional,
  timeoutMs: shown.number.optional,
  retries: shown.integer.optional,
  retryDelay: shown.one(record(null, { firstMs: shown.number, factor: shown.number, longestMs: shown.number }))
    .optional,
  onCrash: shown.words(['retry', 'skip', 'fail']).optional,
  offline: shown.words(['run', 'wait']).optional,
  memoryBytes: shown.number.optional,
  warnRssBytes: shown.number.optional,
  maxRssBytes: shown.number.optional,
  rssSustainMs: shown.number.optional,
  maxOutputBytes: shown.number.optional,
  nice: shown.integer.optional,
  env: field.list(field.text).about('Names of variables').optional,
  isolate: shown.flag.optional,
  alertAfter: shown.integer.optional,
  tags: shown.list(shown.text).optional,
  host: shown.list(shown.text).about('The machines that it runs on: globs').optional,
  everyHost: shown.flag.about('Each machine runs it').optional,
  schedule: shown.text.like('daily at 02:30').about('When it runs, within its tier').optional,
  timezone: shown.text.like('Europe/Berlin').optional,
  between: shown.text.like('22:00 and 05:00').about('The time of day at which it may start').optional,
  except: shown.list(shown.text).about('Files with the dates on which it is not due').optional,
  reboot: shown.flag.about('It runs once after each boot').optional,
  after: shown.list(shown.text).about('Scripts that must have succeeded since its last run: names, globs').optional,
  afterFailure: shown.list(shown.text).about('Scripts of which one must have failed since').optional,
  always: shown.list(shown.text).about('Scripts that must have ended since, in whatever way').optional,
  isPinged: shown.flag.about('A service is called with each run; its URL is a secret'),
});

const tierOptionsRecord = record(null, {
  ...optionsRecord.fields,
  concurrency: field.integer.optional,
  catchUp: field.words(['once', 'skip']).optional,
  envFile: field.list(field.text).optional,
});

/** Replaces the URL of a ping by a flag: the URL alone is enough to report success to the service. */
const withoutPing = (options: ScriptOptions) => ({ ...options, isPinged: options.ping !== undefined });

export const optionsField = new Field({
  ...shown.one(optionsRecord),
  toJson: (options: ScriptOptions) => optionsRecord.toJson(withoutPing(options)),
});

const tierOptionsField = new Field({
  ...field.one(tierOptionsRecord),
  toJson: (options: ScriptOptions) => tierOptionsRecord.toJson(withoutPing(options)),
});

/** A channel without its target, which may be a secret: the URL of a webhook, a command with a token. */
const channelRecord = record('Channel', {
  name: field.text.like('mail/welcome'),
  kind: field.words(['mail', 'webhook', 'command']),
  preset: new Field({
    ...field.words(presets).orNull.from('options'),
    toJson: ({ preset }: ChannelSettings['options']) => presets.find((each) => each === preset) ?? null,
  }),
  severity: field.words(['warning', 'critical']).orNull,
  tags: field.list(field.text),
});

const known = field.number.orNull;

/** Each by its name: what settings are to come may be secrets. */
const inForceRecord = record('SettingsInForce', {
  siteName: field.text.like('shop.example').orNull.about('Null: the name of the root’s folder and of the machine'),
  defaults: optionsField,
  tiers: field.map(tierOptionsField),
  scripts: field.map(optionsField),
  timezone: field.text.like('Europe/Berlin').orNull.about('The zone of all times; null: that of the machine'),
  concurrency: field.integer,
  exitZeroOnFailure: field.flag,
  env: new Field({
    ...field.list(field.text).about('Names of the variables that scripts get; never their values'),
    toJson: namesOf,
  }),
  envFile: field.list(field.text).orNull.about('Files of further variables; null: `.env`, if there is one'),
  umask: new Field({ ...field.text.like('022'), toJson: (umask: number) => umask.toString(8).padStart(3, '0') }),
  retention: field.one(
    record(null, { succeededMs: field.number, failedMs: field.number, maxDatabaseBytes: field.number }),
  ),
  maxOutputBytes: field.number,
  limits: field.one(
    record(null, { maxLoad: known, minFreeMemoryBytes: known, maxProcesses: known, maxWaitMs: field.number }),
  ),
  queue: field.one(
    record(null, {
      leaseMs: field.number,
      archive: field.map(field.words(['keep', 'keep-failed', 'remove'])),
      groupLimit: known,
      childJobs: field.number,
      childMemoryBytes: field.number,
      missedCap: field.number,
    }),
  ),
  workers: field.one(record(null, { max: field.integer })),
  allowUnsafe: field.flag,
  secrets: field.list(field.text).about('Names of variables whose values are masked'),
  alerts: field.one(
    record(null, {
      channels: field.list(field.one(channelRecord)),
      after: field.integer,
      remindMs: field.number,
      quiet: field.one(record(null, { from: field.integer, until: field.integer })).orNull,
      perHour: field.integer,
    }),
  ),
  checks: field.map(known),
  web: field.one(record(null, { url: field.text.like('https://example.org/runner').orNull })),
  report: field.one(
    record(null, {
      html: field.text.like('../public_html/status/index.html').orNull,
      withOutput: field.flag,
      protect: field.flag,
    }),
  ),
});

const settingsRecord = record('Settings', {
  root: field.text.like('/home/me/site'),
  version: field.text.like('0.1.0'),
  nodeVersion: field.text.like('24.2.0'),
  zone: field.text.like('Europe/Berlin').about('The time zone of the server'),
  problem: field.text
    .like('runner.config.json:2: concurrency must be a whole number from 1 to 64, found 0')
    .orNull.about('Errors in the settings; nothing is started until they are fixed'),
  file: field.text.like('runner.config.json').orNull.about('`runner.config.ts`; null: there is none'),
  settings: field.one(inForceRecord),
  standard: field.one(inForceRecord).about('The defaults'),
  changed: field
    .list(
      field.one(
        record(null, {
          path: field.list(field.text).about('Its names: `queue`, `leaseMs`'),
          from: field.text.like('runner.config.json').about('The file or the variable where it is set'),
        }),
      ),
    )
    .about('The values that differ from the defaults'),
});

const settingsView = view({
  operationId: 'getSettings',
  path: '/api/settings',
  summary: 'The settings in force, without secrets: no values of variables, no addresses',
  says: 'The settings',
  answers: settingsRecord,
  isWithoutLog: true,
  read: async ({ root, env }, _, { version }) => {
    const { settings, problem } = await loadOrTell(root, env);
    const file = findSettingsFile(root);
    const ofFile =
      file === null ? defaultSettings : (await loadOrTell(root, { ...env, [ALERTS_VARIABLE]: '' })).settings;
    const [inForce, standard] = [inForceRecord.toJson(settings), inForceRecord.toJson(defaultSettings)];
    const changed = findChanged(inForce, standard).map((path) => ({ path, from: sourceOf(path, file, ofFile) }));
    const place = { root, version, nodeVersion: process.versions.node, zone: hostZone() };
    return { ...place, problem, file, settings, standard: defaultSettings, changed };
  },
});

export const settingsViews = [settingsView];

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

/** The source of a setting. Variables count only for settings that the file leaves out. */
function sourceOf([group, key]: readonly string[], file: string | null, ofFile: Settings): string {
  const isOfVariable =
    (group === 'alerts' && key === 'channels' && ofFile.alerts.channels.length === 0) || file === null;
  if (!isOfVariable && file !== null) return file;
  return group === 'allowUnsafe' ? OVERRIDE_VARIABLE : ALERTS_VARIABLE;
}
