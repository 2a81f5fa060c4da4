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
import type { SettingIssue, SettingsTable, WrittenIn } from './table.ts';

/** Services that need their own form of message; `json`: the message unchanged. */
export const presets = ['json', 'slack', 'discord', 'teams', 'ntfy', 'telegram', 'pushover'] as const;

export type Preset = (typeof presets)[number];

const addressForm = /^[^\s<>@,;:"'()[\]\\\p{Cc}-][^\s<>@,;:"'()[\]\\\p{Cc}]*@[^\s<>@,;:"'()[\]\\\p{Cc}]+$/u;

/** Accepts one address without a name, which would only be one more text to quote. */
const readAddress: Reader<string, string> = (found) =>
  typeof found === 'string' && isAddressOrName(found.trim())
    ? { value: found.trim() }
    : { expected: 'an address such as me@example.org, or $NAME' };

const readAddresses: Reader<string, string | readonly string[]> = (found) => {
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
const readSmtp: Reader<string, string> = (found) => {
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

const readSecret: Reader<string, string> = (found) =>
  typeof found === 'string' && variableReference.test(found.trim())
    ? { value: found.trim() }
    : { expected: describeSecret() };

const readLine: Reader<string, string> = (found) =>
  typeof found === 'string' && found.trim() !== '' && !found.includes('\0')
    ? { value: found.trim() }
    : { expected: 'a text' };

const readProgram: Reader<string, string> = (found) =>
  typeof found === 'string' && found.startsWith('/') ? { value: found } : { expected: 'the full path of a program' };

/** An id is mostly digits, and may be written as a number. */
const readId: Reader<string, string | number> = (found) => readLine(typeof found === 'number' ? String(found) : found);

const readVariableNames: Reader<string, string | readonly string[]> = (found) => {
  const reading = readWords(variableName, 'names of environment variables such as PAGER_KEY')(found);
  return 'value' in reading ? { value: reading.value.join(' ') } : reading;
};

/** The options of each kind of channel, the target first. */
const kinds = {
  mail: {
    to: { read: readAddresses },
    /** Default: the user, at this host. */
    from: { read: readAddress },
    /** `$SMTP_URL`, which holds `smtps://user:password@mail.example.org`. Default: the local sendmail. */
    smtp: { read: readSmtp, isSecret: true },
    /** Full path of a program that accepts mail as sendmail does. Default: the usual places of sendmail. */
    sendmail: { read: readProgram },
  },
  webhook: {
    /** `https://…`, or `$NAME`. Telegram and Pushover need none. */
    url: { read: readUrl, isSecret: true },
    /** The form of the messages. Default: by the URL's host, otherwise `json`. */
    preset: { read: readChoice(...presets) },
    /** `$NAME`: the token of the service; with `json` and `ntfy` it is sent as `Authorization: Bearer …`. */
    token: { read: readSecret, isSecret: true },
    /** Telegram: the number of the chat. */
    chat: { read: readId },
    /** Pushover: the user's or the group's key. */
    user: { read: readId, isSecret: true },
  },
  command: {
    /** A line for `/bin/sh`, run in the root, with the message as JSON on stdin. */
    run: { read: readLine, isSecret: true },
    /** Variables that it gets from the runner's environment. */
    env: { read: readVariableNames },
  },
} as const satisfies Readonly<Record<string, SettingsTable>>;

const readName: Reader<string, string> = (found) =>
  typeof found === 'string' && /^[\w-]{1,40}$/.test(found)
    ? { value: found }
    : { expected: 'a name of letters, digits, - and _' };

const ofAll = {
  /** The name for `runner alert test`. Default: its preset or kind. */
  name: { read: readName },
  /** Only incidents of at least this severity. Default: all. */
  severity: { read: readChoice('warning', 'critical') },
  /** Only incidents of scripts with one of these tags. Default: all. */
  tags: { read: readTagWords },
} as const satisfies SettingsTable;

export type ChannelKind = keyof typeof kinds;

/** A channel as it is written, with the options that it must have. */
type Written<Options extends SettingsTable, Needed extends keyof Options> = WrittenIn<typeof ofAll> &
  WrittenIn<Options> &
  Required<Pick<WrittenIn<Options>, Needed>>;

type ChannelInput =
  | ({ readonly kind: 'mail' } & Written<typeof kinds.mail, 'to'>)
  | ({ readonly kind: 'webhook' } & Written<typeof kinds.webhook, never>)
  | ({ readonly kind: 'command' } & Written<typeof kinds.command, 'run'>);

type OptionOf<Kind> = Kind extends ChannelKind ? Exclude<keyof (typeof kinds)[Kind], 'to' | 'url' | 'run'> : never;

/**
 * A channel for messages. Values that begin with `$` name variables of the runner's environment, which are read when a
 * message is sent.
 */
export interface ChannelSettings {
  /** Its name in the settings, otherwise its preset or kind; a second channel of that name is `webhook-2`. */
  readonly name: string;
  readonly kind: ChannelKind;
  /** For mail, the addresses; for a webhook, the URL, or '' if its preset has one; for a command, its text. */
  readonly target: string;
  /** Further options of its kind: `smtp`, `from`, `preset`, `token` … */
  readonly options: Readonly<Partial<Record<OptionOf<ChannelKind>, string>>>;
  /** Only incidents of at least this severity; null: all. */
  readonly severity: 'warning' | 'critical' | null;
  /** Only incidents of scripts with one of these tags; empty: all. */
  readonly tags: readonly string[];
}

/** A fault of one option of a channel; an empty path means the channel as a whole. */
type ChannelIssue = Omit<SettingIssue, 'known'>;

type CheckedChannel = { readonly value: ChannelSettings } | { readonly wrong: readonly ChannelIssue[] };

/** Services with one fixed address, and the options that they need. */
const needed: Readonly<Record<string, readonly string[]>> = {
  telegram: ['token', 'chat'],
  pushover: ['token', 'user'],
};

const readKind = readChoice('mail', 'webhook', 'command');

export interface ChannelsReader {
  (found: unknown): ParseResult<readonly ChannelSettings[]> | { readonly wrong: readonly ChannelIssue[] };
  readonly written?: readonly ChannelInput[];
}

/** Reads `alerts.channels`. */
export const readChannels: ChannelsReader = (found) => {
  if (!Array.isArray(found)) return { expected: 'a list' };
  const checked = found.map(readChannel);
  const wrong = checked.flatMap((each, place) =>
    'value' in each ? [] : each.wrong.map((issue) => ({ ...issue, path: [String(place), ...issue.path] })),
  );
  return wrong.length > 0
    ? { wrong }
    : { value: nameChannels(checked.flatMap((each) => ('value' in each ? each.value : []))) };
};

/** Reads one channel of `alerts.channels`; its name is not final. */
export function readChannel(found: unknown): CheckedChannel {
  if (typeof found !== 'object' || found === null || Array.isArray(found)) {
    const expected = "an object such as { kind: 'mail', to: 'me@example.org' }";
    return { wrong: [{ path: [], expected, found, isSecret: false }] };
  }
  const given = new Map<string, unknown>(Object.entries(found).filter(([, value]) => value !== undefined));
  const kind = readKind(given.get('kind'));
  if ('expected' in kind) return { wrong: [issueAt('kind', kind.expected, given.get('kind'))] };
  given.delete('kind');
  return readOptions(kind.value, given);
}

const secretOptions = Object.values<SettingsTable>(kinds)
  .flatMap((options) => Object.entries(options))
  .flatMap(([key, option]) => ('isSecret' in option ? [key] : []));

function issueAt(key: string, expected: string, found: unknown): ChannelIssue {
  return { path: [key], expected, found, isSecret: secretOptions.includes(key) };
}

function readOptions(kind: ChannelKind, given: ReadonlyMap<string, unknown>): CheckedChannel {
  const issues: ChannelIssue[] = [];
  const values = new Map<string, unknown>();
  for (const [key, value] of given) {
    const reading = readOption(kind, key, value);
    if ('value' in reading) values.set(key, reading.value);
    else issues.push(issueAt(key, reading.expected, value));
  }
  const [target = ''] = Object.keys(kinds[kind]);
  const required = needed[String(values.get('preset'))] ?? [target];
  for (const key of required.filter((each) => !given.has(each))) {
    const reading = readOption(kind, key, undefined);
    if ('expected' in reading) issues.push(issueAt(key, reading.expected, undefined));
  }
  const clear = isToldInClear(values) ? values.get('url') : undefined;
  if (clear !== undefined) {
    issues.push(issueAt('url', 'a URL that begins with https://, as it holds or carries a secret', clear));
  }
  return issues.length > 0 ? { wrong: issues } : { value: toChannel(kind, target, values) };
}

/** Whether a webhook would send a secret, its token or its own URL, without encryption. */
function isToldInClear(values: ReadonlyMap<string, unknown>): boolean {
  const url = URL.parse(String(values.get('url') ?? ''));
  const hasSecret = values.has('token') || (values.get('preset') ?? 'json') !== 'json';
  return hasSecret && url !== null && isInClear(url);
}

function readOption(kind: ChannelKind, key: string, value: unknown): ParseResult<unknown> {
  const options: Readonly<Record<string, { readonly read: Reader<unknown, unknown> }>> = { ...kinds[kind], ...ofAll };
  const option = Object.hasOwn(options, key) ? options[key] : undefined;
  return option?.read(value) ?? { expected: `left out: ${kind} has ${Object.keys(options).join(', ')}` };
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
function nameChannels(channels: readonly ChannelSettings[]): readonly ChannelSettings[] {
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

/** The words before the colon in `RUNNER_ALERTS`, and after `runner alert add`. */
export const wordKinds = {
  mail: (to: string) => ({ kind: 'mail', to }),
  webhook: (url: string) => ({ kind: 'webhook', url }),
  command: (run: string) => ({ kind: 'command', run }),
  slack: (url: string) => ({ kind: 'webhook', preset: 'slack', url }),
  discord: (url: string) => ({ kind: 'webhook', preset: 'discord', url }),
  teams: (url: string) => ({ kind: 'webhook', preset: 'teams', url }),
  ntfy: (url: string) => ({
    kind: 'webhook',
    preset: 'ntfy',
    url: /^[\w-]+$/.test(url) ? `https://ntfy.sh/${url}` : url,
  }),
  telegram: (chat: string) => ({ kind: 'webhook', preset: 'telegram', chat, token: '$TELEGRAM_TOKEN' }),
  pushover: (user: string) => ({ kind: 'webhook', preset: 'pushover', user, token: '$PUSHOVER_TOKEN' }),
} satisfies Readonly<Record<string, (target: string) => Readonly<Record<string, string>>>>;

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
    const place = `word ${index + 1}`;
    const input = Object.hasOwn(wordKinds, kind) ? wordKinds[kind as keyof typeof wordKinds](target) : undefined;
    if (input === undefined) {
      problems.push(`${place} must be ${Object.keys(wordKinds).join(', ')} and a target: mail:me@example.org`);
      continue;
    }
    const smtp = kind === 'mail' && environment.SMTP_URL ? { smtp: '$SMTP_URL' } : {};
    const checked = readChannel({ ...input, ...smtp });
    if ('value' in checked) found.push(checked.value);
    else problems.push(...checked.wrong.map(({ expected }) => `${place} (${kind}) must be ${expected}`));
  }
  return { channels: nameChannels(found), problems };
}
