import { existsSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual, parseEnv } from 'node:util';
import { formatJson } from '../../report/json.ts';
import { type ChannelSettings, isInClear, readChannel, variablesOf, wordKinds } from '../../settings/channels.ts';
import { addChannelTo, removeChannelFrom } from '../../settings/edit-json.ts';
import { findSettingsFile, loadWithFiles } from '../../settings/load.ts';
import { variableReference } from '../../settings/readers.ts';
import { ALERTS_VARIABLE, ENV_FILE, ownEnvironment, type Runner } from '../../settings/settings.ts';
import { UsageError } from '../../system/base/errors.ts';
import { replaceFile } from '../../system/base/plain-file.ts';
import { printableLine } from '../../system/base/text.ts';
import { readIfThere } from '../../system/base/values.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { print, rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { testAndShow } from './alert.ts';

const CONFIG = 'runner.config.json';

/** The end of a line of `.env` that this command has written, and removes again. */
const MARK = '# by runner alert add';

type Input = Readonly<Record<string, string>>;

/** A channel that is to be added, and the values of its variables. */
interface NewChannel {
  readonly input: Input;
  readonly secrets: ReadonlyMap<string, string>;
}

/** `runner alert add`: a channel in the settings, its secrets in `.env`, and a test message. */
export async function addChannel(context: CommandContext, options: Given<'alert add'>): Promise<void> {
  const { root: option, kind, test } = options;
  const runner = await openRunner(context, option);
  const target = options.target === '-' ? await readLine(context, kind) : options.target;
  const asked = describeChannel({ ...options, target });
  const added = nameSecrets(runner, asked, options.name ?? kind);
  const name = added.input.name ?? added.input.preset ?? kind;
  if (runner.settings.alerts.channels.some((channel) => channel.name === name && !isOfVariable(runner))) {
    throw new UsageError(`There is a channel ${name} already: give this one another name with --name.`);
  }
  const file = findSettingsFile(runner.root);
  const envFile = envFileOf(runner);
  const edited = file === null || file === CONFIG ? editConfig(runner, file, added) : null;
  if (edited === null || envFile === null) {
    showLines(context, added, file ?? CONFIG, edited === null);
    context.setExitCode(1);
    return;
  }
  const changed = [
    ...(added.secrets.size === 0 ? [] : [write(envFile, withSecrets(envFile, added.secrets), 0o600)]),
    write(join(runner.root, CONFIG), edited, 0o644),
  ];
  const names = changed.map((path) => relative(runner.root, path)).join(' and ');
  context.stdout.write(
    `Added the channel ${name} to ${names}. \`npx folder-runner alert remove ${name}\` takes it back.\n`,
  );
  if (isOfVariable(runner))
    context.stderr.write('Note: RUNNER_ALERTS no longer counts, as the settings have channels.\n');
  if (test) await testNew(context, option, name);
}

/** The settings with the channel; null: the file has it in none of the ways that can be edited safely. */
function editConfig(runner: Runner, file: string | null, { input }: NewChannel): string | null {
  const edited = addChannelTo(file === null ? null : read(runner, CONFIG), toLine(input));
  const { alerts } = JSON.parse(edited.replace(/^\ufeff/, '')) as {
    readonly alerts?: { readonly channels?: readonly unknown[] };
  };
  // A key that stands twice hides the first.
  return isDeepStrictEqual(alerts?.channels?.at(-1), input) ? edited : null;
}

async function testNew(context: CommandContext, option: string | undefined, name: string): Promise<void> {
  const runner = await openRunner(context, option);
  const channel = runner.settings.alerts.channels.find((each) => each.name === name);
  if (channel !== undefined && !(await testAndShow(context, runner, channel))) context.setExitCode(1);
}

/** Whether the channels are those of `RUNNER_ALERTS`: the settings have none. */
function isOfVariable({ settings }: Runner): boolean {
  return settings.secrets.includes(ALERTS_VARIABLE);
}

/** The first line of stdin: a terminal shows a secret, but no list of processes and no history of a shell does. */
async function readLine({ stderr }: CommandContext, kind: string): Promise<string> {
  if (process.stdin.isTTY) stderr.write(`target of ${kind}: `);
  for await (const line of createInterface({ input: process.stdin })) return line.trim();
  return '';
}

/** The channel as it is written in the settings, with its secrets in it. @throws {UsageError} if it is wrong */
function describeChannel({ kind, target, token, name, smtp }: Given<'alert add'>): Input {
  if (target === '')
    throw new UsageError('The target is empty: write an address, a URL or a topic, or pass it on stdin.');
  const input: Record<string, string> = { ...wordKinds[kind](target) };
  if ((token === undefined) === (kind === 'telegram' || kind === 'pushover')) {
    throw new UsageError(
      token === undefined
        ? `${kind} needs a token behind its target: \`npx folder-runner alert add ${kind} ${target} <token>\`.`
        : `${kind} takes no token.`,
    );
  }
  if (token !== undefined) input.token = token;
  if (smtp !== undefined && kind !== 'mail') throw new UsageError(`--smtp is for mail, not for ${kind}.`);
  if (smtp !== undefined) input.smtp = smtp;
  if (name !== undefined) input.name = name;
  const url = URL.parse(input.url ?? input.smtp ?? 'https://x');
  const isVariable = variableReference.test(input.url ?? input.smtp ?? '');
  if (!isVariable && (url === null || !/^(?:https?|smtps?):$/.test(url.protocol) || isInClear(url))) {
    throw new UsageError(
      `${input.url === undefined ? '--smtp' : 'The target'} must be a URL that begins with ${input.url === undefined ? 'smtps' : 'https'}://.`,
    );
  }
  return input;
}

const secretKeys = ['url', 'token', 'smtp'];

/** Replaces secrets by the names of variables: those that have the value already, otherwise new ones. */
function nameSecrets(runner: Runner, input: Input, name: string): NewChannel {
  const environment = ownEnvironment(runner);
  const secrets = new Map<string, string>();
  const entries = Object.entries(input).map(([key, value]) => {
    if (!secretKeys.includes(key) || variableReference.test(value)) return [key, value] as const;
    if (/['"\\\n\r]/.test(value)) throw new UsageError(`The ${key} contains a quote, a backslash or a line break.`);
    const variable = chooseVariable(
      environment,
      key === 'smtp' ? 'SMTP_URL' : `${toVariable(name)}_${key.toUpperCase()}`,
      value,
    );
    if (environment[variable] === undefined) secrets.set(variable, value);
    return [key, `$${variable}`] as const;
  });
  const named = Object.fromEntries(entries);
  const checked = readChannel(named);
  if ('value' in checked) return { input: named, secrets };
  throw new UsageError(
    checked.wrong.map(
      ({ path, expected }) => `The ${path[0] === 'to' ? 'target' : (path[0] ?? 'channel')} must be ${expected}.`,
    ),
  );
}

/** `my-shop` becomes `MY_SHOP`. */
function toVariable(name: string): string {
  return name
    .toUpperCase()
    .replaceAll('-', '_')
    .replace(/^(?=\d)/, '_');
}

/** The first name that is free, or has this value: `SLACK_URL`, `SLACK_URL_2`. */
function chooseVariable(environment: NodeJS.ProcessEnv, base: string, value: string): string {
  let variable = base;
  for (let place = 2; (environment[variable] ?? value) !== value; place += 1) variable = `${base}_${place}`;
  return variable;
}

/** The file for secrets; null: the settings name none. */
function envFileOf({ root, settings }: Runner): string | null {
  const { envFile, given } = settings;
  if (envFile === null) return join(root, ENV_FILE);
  return envFile.length === 0 ? null : (given.files[envFile.length - 1]?.path ?? null);
}

function toLine(input: Input): string {
  return `{ ${Object.entries(input)
    .map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`)
    .join(', ')} }`;
}

const lineOf = (name: string, value: string): string => `${name}="${value}"`;

/** A last line without an end stays such a one, so that the file is the same once the lines are gone. */
function withSecrets(path: string, secrets: ReadonlyMap<string, string>): string {
  const source = readIfThere(path);
  const isOpen = existsSync(path) && !source.endsWith('\n');
  const lines = [...secrets].map(([name, value]) => `${lineOf(name, value)} ${MARK}`);
  return [source.replace(/\n$/, ''), ...lines, ...(isOpen ? [] : [''])].slice(source === '' ? 1 : 0).join('\n');
}

function showLines(
  { stdout, stderr }: CommandContext,
  { input, secrets }: NewChannel,
  file: string,
  isUnedited: boolean,
): void {
  const why = isUnedited ? `${file} cannot be edited safely` : 'envFile in the settings names no file for secrets';
  stderr.write(`runner: Nothing was changed, as ${why}. Paste these lines.\n`);
  stdout.write(`In alerts.channels of ${file}:\n  ${toLine(input)}\n`);
  const lines = [...secrets].map(([name, value]) => `  ${lineOf(name, value)}\n`).join('');
  if (lines !== '')
    stdout.write(`In ${ENV_FILE} (chmod 600 ${ENV_FILE}), or above the lines of the crontab:\n${lines}`);
}

function read({ root }: Pick<Runner, 'root'>, name: string): string {
  return readFileSync(join(root, name), 'utf8');
}

/** Keeps the file behind a link, and the mode that a file has. Null removes the file. */
function write(path: string, content: string | null, mode: number): string {
  const isThere = existsSync(path);
  const real = isThere ? realpathSync(path) : path;
  if (content === null) rmSync(path, { force: true });
  else replaceFile(real, content, isThere ? statSync(real).mode & 0o777 : mode);
  return path;
}

/** `runner alert remove`: takes `alert add` back. */
export async function removeChannel(
  context: CommandContext,
  { root: option, name }: Given<'alert remove'>,
): Promise<void> {
  const runner = await openRunner(context, option);
  const { channels } = runner.settings.alerts;
  const place = channels.findIndex((channel) => channel.name === name);
  const channel = channels[place];
  const file = findSettingsFile(runner.root);
  if (channel === undefined) {
    const names = channels.map((each) => each.name).join(', ') || 'none';
    throw new UsageError(`There is no channel ${JSON.stringify(name)}; the channels here are ${names}.`);
  }
  if (file !== CONFIG || isOfVariable(runner)) {
    const where = isOfVariable(runner) ? 'RUNNER_ALERTS, in the crontab' : file;
    throw new UsageError(`${name} is in ${where}, which this command does not change: remove it there.`);
  }
  write(join(runner.root, CONFIG), removeChannelFrom(read(runner, CONFIG), place), 0o644);
  const others = variablesOf(channels.filter((each) => each !== channel));
  const envFile = envFileOf(runner);
  const gone =
    envFile === null
      ? []
      : removeLines(
          envFile,
          variablesOf([channel]).filter((each) => !others.includes(each)),
        );
  const also = gone.length === 0 ? '' : `, and ${gone.join(', ')} from ${relative(runner.root, envFile ?? '')}`;
  context.stdout.write(`Removed the channel ${name} from ${CONFIG}${also}.\n`);
}

/** Removes the lines that `alert add` has written for these variables; returns the names of those. */
function removeLines(path: string, names: readonly string[]): readonly string[] {
  const source = readIfThere(path);
  const lines = source.split('\n');
  const nameOf = (line: string): string => (line.endsWith(` ${MARK}`) ? (Object.keys(parseEnv(line))[0] ?? '') : '');
  const gone = lines.map(nameOf).filter((name) => names.includes(name));
  const rest = lines.filter((line) => !gone.includes(nameOf(line))).join('\n');
  // A file that was empty before has no end of a line, as `withSecrets` leaves it.
  if (gone.length > 0) write(path, rest === '' && source.endsWith('\n') ? null : rest, 0o600);
  return gone;
}

/** `runner alert list`. */
export async function listChannels(
  context: CommandContext,
  { root: option, json }: Given<'alert list'>,
): Promise<void> {
  const { env } = context;
  const settings = await loadWithFiles(rootOf(context, option), env);
  const environment = ownEnvironment({ settings, environment: env });
  const channels = settings.alerts.channels.map((channel): Listed => {
    const { name, kind, options, severity, tags, target } = channel;
    const variables = variablesOf([channel]).map((variable) => ({
      name: variable,
      isSet: Boolean(environment[variable]),
    }));
    // The targets of others may be secrets.
    return {
      name,
      kind,
      preset: options.preset ?? null,
      severity,
      tags,
      variables,
      to: kind === 'mail' ? target : null,
    };
  });
  await print(context, json ? formatJson({ channels }) : renderChannels(channels));
}

function renderChannels(channels: readonly Listed[]): string {
  if (channels.length === 0) return 'No channels: `npx folder-runner alert add mail me@example.org`.\n';
  const width = Math.max(...channels.map(({ name }) => name.length));
  return channels.map((channel) => renderChannel(channel, width)).join('');
}

type Listed = Pick<ChannelSettings, 'name' | 'kind' | 'severity' | 'tags'> & {
  readonly preset: string | null;
  /** The addresses of a mail; null: another kind. */
  readonly to: string | null;
  readonly variables: readonly { readonly name: string; readonly isSet: boolean }[];
};

/** "slack  webhook (slack)  $SLACK_URL · critical" */
function renderChannel({ name, kind, preset, to, severity, tags, variables }: Listed, width: number): string {
  const parts = [
    preset === null ? kind : `${kind} (${preset})`,
    to ?? '',
    ...variables.map((each) => `$${each.name}${each.isSet ? '' : ' is not set'}`),
    severity === 'critical' ? 'critical only' : '',
    tags.length === 0 ? '' : `tags ${tags.join(' ')}`,
  ];
  return `${printableLine(`${name.padEnd(width)}  ${parts.filter(Boolean).join(' · ')}`)}\n`;
}
