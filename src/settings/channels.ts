import {
  describeSecret,
  type ParseResult,
  type Reader,
  readChoice,
  readTagWords,
  readUrl,
  readWords,
  variableName,
  variableReference,
} from './readers.ts';
import { type ChannelKind, type ChannelSettings, presets } from './settings.ts';

/** A fault of one option of a channel. */
export interface ChannelIssue {
  /** Null: the channel as a whole is at fault. */
  readonly key: string | null;
  readonly expected: string;
  readonly found: unknown;
}

type CheckedChannel = { readonly channel: ChannelSettings } | { readonly issues: readonly ChannelIssue[] };

const addressForm = /^[^\s<>@,;:"'()[\]\\\p{Cc}-][^\s<>@,;:"'()[\]\\\p{Cc}]*@[^\s<>@,;:"'()[\]\\\p{Cc}]+$/u;

/** Accepts one address without a name, which would only be one more text to quote. */
const readAddress: Reader<string> = (found) =>
  typeof found === 'string' && isAddressOrName(found.trim())
    ? { value: found.trim() }
    : { expected: 'an address such as me@example.org, or $NAME' };

const readAddresses: Reader<string> = (found) => {
  const all = typeof found === 'string' ? found.split(',') : found;
  const isList = Array.isArray(all) && all.length > 0;
  const isRight = isList && all.every((each) => typeof each === 'string' && isAddressOrName(each.trim()));
  if (!isRight) return { expected: 'one or more addresses such as me@example.org, or $NAME' };
  return { value: all.map((each: string) => each.trim()).join(', ') };
};

/** Whether a text is safe on a mail program's command line, and in a header. */
export function isAddress(text: string): boolean {
  return addressForm.test(text) && text.length <= 254;
}

const isAddressOrName = (text: string): boolean => variableReference.test(text) || isAddress(text);

/** If the server needs a password, a variable holds the whole URL. */
const readSmtp: Reader<string> = (found) => {
  const text = typeof found === 'string' ? found.trim() : '';
  if (variableReference.test(text)) return { value: text };
  const url = URL.parse(text);
  if (url === null || !/^smtps?:$/.test(url.protocol)) {
    return { expected: '$NAME of a variable such as SMTP_URL, or a URL: smtp://localhost' };
  }
  return url.username + url.password === '' ? { value: text } : { expected: describeSecret('a URL without password') };
};

/** Whether a URL leads to this machine, with nobody in between. */
export function isLocalHost(host: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host);
}

/** Whether others on the way could read a message to this URL. */
export function isInClear(url: URL): boolean {
  return url.protocol === 'http:' && !isLocalHost(url.hostname);
}

const readSecret: Reader<string> = (found) =>
  typeof found === 'string' && variableReference.test(found.trim())
    ? { value: found.trim() }
    : { expected: describeSecret() };

const readLine: Reader<string> = (found) =>
  typeof found === 'string' && found.trim() !== '' && !found.includes('\0')
    ? { value: found.trim() }
    : { expected: 'a text' };

const readProgram: Reader<string> = (found) =>
  typeof found === 'string' && found.startsWith('/') ? { value: found } : { expected: 'the full path of a program' };

/** An id is mostly digits, and may be written as a number. */
const readId: Reader<string> = (found) => readLine(typeof found === 'number' ? String(found) : found);

const readVariableNames: Reader<string> = (found) => {
  const reading = readWords(variableName, 'names of environment variables such as PAGER_KEY')(found);
  return 'value' in reading ? { value: reading.value.join(' ') } : reading;
};

/** The options of each kind of channel, the target first. */
const shapes: Readonly<Record<ChannelKind, Readonly<Record<string, Reader<string>>>>> = {
  mail: { to: readAddresses, from: readAddress, smtp: readSmtp, sendmail: readProgram },
  webhook: { url: readUrl, preset: readChoice(...presets), token: readSecret, chat: readId, user: readId },
  command: { run: readLine, env: readVariableNames },
};

const readName: Reader<string> = (found) =>
  typeof found === 'string' && /^[\w-]{1,40}$/.test(found)
    ? { value: found }
    : { expected: 'a name of letters, digits, - and _' };

const ofAll = { name: readName, severity: readChoice('warning', 'critical'), tags: readTagWords };

/** Services with one fixed address, and the options that they need. */
const needed: Readonly<Record<string, readonly string[]>> = {
  telegram: ['token', 'chat'],
  pushover: ['token', 'user'],
};

const readKind = readChoice('mail', 'webhook', 'command');

/** Reads one channel of `alerts.channels`; its name is not final. */
export function readChannel(found: unknown): CheckedChannel {
  if (typeof found !== 'object' || found === null || Array.isArray(found)) {
    return { issues: [{ key: null, expected: "an object such as { kind: 'mail', to: 'me@example.org' }", found }] };
  }
  const given = new Map<string, unknown>(Object.entries(found).filter(([, value]) => value !== undefined));
  const kind = readKind(given.get('kind'));
  if ('expected' in kind) return { issues: [{ key: 'kind', expected: kind.expected, found: given.get('kind') }] };
  given.delete('kind');
  return readOptions(kind.value, given);
}

function readOptions(kind: ChannelKind, given: ReadonlyMap<string, unknown>): CheckedChannel {
  const shape: Readonly<Record<string, Reader<unknown>>> = { ...shapes[kind], ...ofAll };
  const issues: ChannelIssue[] = [];
  const values = new Map<string, unknown>();
  for (const [key, value] of given) {
    const reading = readOption(kind, shape, key, value);
    if ('value' in reading) values.set(key, reading.value);
    else issues.push({ key, expected: reading.expected, found: value });
  }
  const [target = ''] = Object.keys(shapes[kind]);
  const required = needed[String(values.get('preset'))] ?? [target];
  for (const key of required.filter((each) => !given.has(each))) {
    const reading = readOption(kind, shape, key, undefined);
    if ('expected' in reading) issues.push({ key, expected: reading.expected, found: undefined });
  }
  const clear = isToldInClear(values) ? values.get('url') : undefined;
  if (clear !== undefined) {
    issues.push({
      key: 'url',
      expected: 'a URL that begins with https://, as it holds or carries a secret',
      found: clear,
    });
  }
  return issues.length > 0 ? { issues } : { channel: toChannel(kind, target, values) };
}

/** Whether a webhook would send a secret, its token or its own URL, without encryption. */
function isToldInClear(values: ReadonlyMap<string, unknown>): boolean {
  const url = URL.parse(String(values.get('url') ?? ''));
  const hasSecret = values.has('token') || (values.get('preset') ?? 'json') !== 'json';
  return hasSecret && url !== null && isInClear(url);
}

function readOption(
  kind: ChannelKind,
  shape: Readonly<Record<string, Reader<unknown>>>,
  key: string,
  value: unknown,
): ParseResult<unknown> {
  const read = Object.hasOwn(shape, key) ? shape[key] : undefined;
  return read?.(value) ?? { expected: `left out: ${kind} has ${Object.keys(shape).join(', ')}` };
}

function toChannel(kind: ChannelKind, target: string, values: ReadonlyMap<string, unknown>): ChannelSettings {
  const { name, severity, tags, [target]: to, ...options } = Object.fromEntries(values);
  return {
    name: String(name ?? options.preset ?? kind),
    kind,
    target: String(to ?? ''),
    options: options as ChannelSettings['options'],
    severity: (severity ?? null) as ChannelSettings['severity'],
    tags: (tags ?? []) as readonly string[],
  };
}

/** Gives each channel a unique name: the second `webhook` is `webhook-2`. */
export function nameChannels(channels: readonly ChannelSettings[]): readonly ChannelSettings[] {
  const taken = new Set<string>();
  return channels.map((channel) => {
    let name = channel.name;
    for (let place = 2; taken.has(name); place += 1) name = `${channel.name}-${place}`;
    taken.add(name);
    return { ...channel, name };
  });
}

/** The names of the variables that hold values of channels. */
export function variablesOf(channels: readonly ChannelSettings[]): readonly string[] {
  const values = channels.flatMap(({ target, options }) => [...target.split(', '), ...Object.values(options)]);
  return [...new Set(values.filter((value) => variableReference.test(value)).map((value) => value.slice(1)))];
}

/** The words before the colon in `RUNNER_ALERTS`. */
const wordKinds: Readonly<Record<string, (target: string) => Readonly<Record<string, unknown>>>> = {
  mail: (to) => ({ kind: 'mail', to }),
  webhook: (url) => ({ kind: 'webhook', url }),
  command: (run) => ({ kind: 'command', run }),
  slack: (url) => ({ kind: 'webhook', preset: 'slack', url }),
  discord: (url) => ({ kind: 'webhook', preset: 'discord', url }),
  teams: (url) => ({ kind: 'webhook', preset: 'teams', url }),
  ntfy: (url) => ({ kind: 'webhook', preset: 'ntfy', url: /^[\w-]+$/.test(url) ? `https://ntfy.sh/${url}` : url }),
  telegram: (chat) => ({ kind: 'webhook', preset: 'telegram', chat, token: '$TELEGRAM_TOKEN' }),
  pushover: (user) => ({ kind: 'webhook', preset: 'pushover', user, token: '$PUSHOVER_TOKEN' }),
};

export const ALERTS_VARIABLE = 'RUNNER_ALERTS';

/**
 * The channels of `RUNNER_ALERTS=mail:me@example.org`; spaces or commas separate several. Mail uses the server in
 * `SMTP_URL` if that is set.
 *
 * @returns also the faults, one sentence per word, without the value, which may be a secret
 */
export function parseAlertsVariable(text: string, environment: NodeJS.ProcessEnv) {
  const found: ChannelSettings[] = [];
  const problems: string[] = [];
  for (const [index, word] of text
    .split(/[\s,]+/)
    .filter(Boolean)
    .entries()) {
    const [, kind = '', target = ''] = /^([a-z]+):(.+)$/.exec(word) ?? [];
    const place = `${ALERTS_VARIABLE}: word ${index + 1}`;
    const input = Object.hasOwn(wordKinds, kind) ? wordKinds[kind]?.(target) : undefined;
    if (input === undefined) {
      problems.push(`${place} must be ${Object.keys(wordKinds).join(', ')} and a target: mail:me@example.org`);
      continue;
    }
    const smtp = kind === 'mail' && environment.SMTP_URL ? { smtp: '$SMTP_URL' } : {};
    const checked = readChannel({ ...input, ...smtp });
    if ('channel' in checked) found.push(checked.channel);
    else problems.push(...checked.issues.map(({ expected }) => `${place} (${kind}) must be ${expected}`));
  }
  return { channels: nameChannels(found), problems };
}
