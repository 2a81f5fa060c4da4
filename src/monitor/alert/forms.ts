import { type ChannelSettings, isInClear, type Preset, variablesOf } from '../../settings/channels.ts';
import { variableReference } from '../../settings/readers.ts';
import { escapeHtml, keepEnd, keepStart } from '../../system/base/text.ts';
import { type AlertMessage, type Part, putIntoWords, type Wording, writePlain } from './message.ts';

/** The variables of a channel that this environment lacks. */
export function missingVariables(channel: ChannelSettings, environment: NodeJS.ProcessEnv): readonly string[] {
  return variablesOf([channel]).filter((name) => !environment[name]);
}

/** "the variable SLACK_URL is not set" */
export function describeMissing(names: readonly string[]): string {
  return names.length === 1 ? `the variable ${names[0]} is not set` : `the variables ${names.join(', ')} are not set`;
}

/** The channel with the values of its variables in place of `$NAME`. */
export function readChannelValues(channel: ChannelSettings, environment: NodeJS.ProcessEnv): ChannelSettings {
  const read = (value: string): string =>
    variableReference.test(value) ? (environment[value.slice(1)] ?? '').trim() : value;
  const isLine = channel.kind === 'command';
  return {
    ...channel,
    // The shell reads the variables of a command.
    target: isLine ? channel.target : channel.target.split(', ').map(read).join(', '),
    options: Object.fromEntries(Object.entries(channel.options).map(([key, value]) => [key, read(value)])),
  };
}

export const NO_SENDMAIL =
  'there is no sendmail here: set `smtp` of the channel to a mail server, such as $SMTP_URL with smtps://user:password@host';

/** One message on its way. */
export interface Outgoing {
  /** The same at each try, so that a receiver recognizes a message that comes twice. */
  readonly id: string;
  /** UTC epoch milliseconds. */
  readonly createdAt: number;
  readonly message: AlertMessage;
}

interface WebhookRequest {
  readonly url: string;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The form of a service. The channels that its functions get have their values read from the environment. */
interface Form {
  /** Hosts that only take messages in this form. */
  readonly hosts?: RegExp;
  /** Whether the URL or the body holds a secret, which must not go to another address, nor in the clear. */
  readonly holdsSecret: boolean;
  write(channel: ChannelSettings, message: AlertMessage, createdAt: number): WebhookRequest;
}

const forms: Readonly<Record<Preset, Form>> = {
  json: { holdsSecret: false, write: writeJson },
  slack: { hosts: /^hooks\.slack(-gov)?\.com$/, holdsSecret: true, write: writeSlack },
  discord: { hosts: /(^|\.)discord(app)?\.com$/, holdsSecret: true, write: writeDiscord },
  teams: {
    hosts: /(\.logic\.azure\.com|\.powerplatform\.com|\.webhook\.office\.com)$/,
    holdsSecret: true,
    write: writeTeams,
  },
  ntfy: { hosts: /^ntfy\.sh$/, holdsSecret: true, write: writeNtfy },
  telegram: { holdsSecret: true, write: writeTelegram },
  pushover: { holdsSecret: true, write: writePushover },
};

export function presetOf({ options, target }: ChannelSettings): Preset {
  const host = URL.parse(target)?.hostname ?? '';
  const presets = Object.keys(forms) as Preset[];
  return (options.preset as Preset | undefined) ?? presets.find((each) => forms[each].hosts?.test(host)) ?? 'json';
}

/**
 * Whether a token, or a URL that is as good as one, would pass the network in the clear.
 *
 * @param channel with its values read from the environment
 */
export function tellsSecret(channel: ChannelSettings): boolean {
  const url = URL.parse(channel.target);
  const hasSecret = forms[presetOf(channel)].holdsSecret || channel.options.token !== undefined;
  return url !== null && isInClear(url) && (hasSecret || url.username + url.password !== '');
}

export const NEEDS_TLS = 'its URL must begin with https://, as the token in it or beside it would be sent in the clear';

/**
 * Writes a message in the form of the channel's service.
 *
 * @param channel with its values read from the environment
 */
export function writeWebhook(channel: ChannelSettings, { message, createdAt }: Outgoing) {
  const { write, holdsSecret } = forms[presetOf(channel)];
  return { holdsSecret, ...write(channel, message, createdAt) };
}

function bearer({ options: { token } }: ChannelSettings): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

/** The message unchanged, for programs. */
function writeJson(channel: ChannelSettings, message: AlertMessage): WebhookRequest {
  return { url: channel.target, body: message, headers: bearer(channel) };
}

/** docs.slack.dev/messaging/sending-messages-using-incoming-webhooks: `text`, in mrkdwn; & < > are escaped. */
function writeSlack({ target: url }: ChannelSettings, message: AlertMessage): WebhookRequest {
  const wording = putIntoWords(message);
  const escapeText = (text: string): string =>
    text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const style = {
    escapeText,
    bold: (text: string) => `*${text}*`,
    code: fence,
    mono: tick,
    link: (address: string) => `<${escapeText(address)}>`,
  };
  const text = writeMarked(wording, style, 3_000);
  // Previews of links in a script's output would only be noise.
  return { url, body: { text, unfurl_links: false, unfurl_media: false } };
}

/** discord.com/developers/docs/resources/webhook: an embed; its title has 256 characters, its text 4,096. */
function writeDiscord({ target: url }: ChannelSettings, message: AlertMessage): WebhookRequest {
  const wording = putIntoWords(message);
  const escapeText = (text: string): string => text.replace(/[\\*_~`|>#[\]()-]/g, (character) => `\\${character}`);
  const style = {
    escapeText,
    bold: (text: string) => `**${text}**`,
    code: fence,
    mono: tick,
    link: (address: string) => `<${address}>`,
  };
  const embed = {
    title: keepStart(wording.subject, 256),
    description: writeMarked(wording, style, 4_096),
    color: wording.isRecovery ? 0x1a7f37 : 0xb3261e,
  };
  // Without this `@everyone` in an output would call everyone.
  const body = { username: 'runner', embeds: [embed], allowed_mentions: { parse: [] } };
  return { url, body };
}

/** An adaptive card, as Teams' workflows take it; a message has 28 KB. */
function writeTeams({ target: url }: ChannelSettings, message: AlertMessage): WebhookRequest {
  const wording = putIntoWords(message);
  const color = wording.isRecovery ? 'Good' : 'Attention';
  const parts = wording.parts.slice(0, 5).flatMap((part) => [
    { type: 'TextBlock', text: escapeCard(part.title), weight: 'Bolder', wrap: true },
    {
      type: 'FactSet',
      facts: part.facts.map(([title, text]) => ({ title, value: escapeCard(keepStart(text, 400)) })),
    },
    { type: 'TextBlock', text: escapeCard(part.command), fontType: 'Monospace', wrap: true },
    ...(part.page === null ? [] : [openingButton(part.page)]),
    ...(part.output === null ? [] : [monospace(keepEnd(part.output, 1_500))]),
  ]);
  const more = wording.parts.length > 5 ? `and ${wording.parts.length - 5} more` : null;
  const rest = [more, wording.more, wording.origin].filter((text) => text !== null);
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    msteams: { width: 'Full' },
    body: [
      { type: 'TextBlock', text: escapeCard(wording.subject), weight: 'Bolder', size: 'Medium', color, wrap: true },
      ...parts,
      ...rest.map((text) => ({
        type: 'TextBlock',
        text: escapeCard(keepStart(text, 2_000)),
        isSubtle: true,
        wrap: true,
      })),
    ],
  };
  const attachment = { contentType: 'application/vnd.microsoft.card.adaptive', contentUrl: null, content };
  return { url, body: { type: 'message', attachments: [attachment] } };
}

/** A card's texts know some Markdown. */
function escapeCard(text: string): string {
  return text.replace(/[\\*_[\]()#>-]/g, (character) => `\\${character}`);
}

function openingButton(url: string): object {
  return { type: 'ActionSet', actions: [{ type: 'Action.OpenUrl', title: 'Open in the dashboard', url }] };
}

function monospace(text: string): object {
  // A line feed alone does not end a line in a card.
  return { type: 'TextBlock', text: escapeCard(text).replaceAll('\n', '\n\n'), fontType: 'Monospace', wrap: true };
}

/** docs.ntfy.sh/publish: as JSON to the server itself; a message has 4,096 bytes. */
function writeNtfy(channel: ChannelSettings, message: AlertMessage): WebhookRequest {
  const wording = putIntoWords(message);
  const { origin, pathname } = new URL(channel.target);
  const page = wording.parts[0]?.page;
  const folders = pathname.split('/').filter(Boolean);
  const topic = decodeURIComponent(folders.pop() ?? '');
  const body = {
    topic,
    title: keepStart(wording.subject, 250),
    message: fitBytes(writePlain(wording, 3_000), 4_000),
    priority: wording.isRecovery ? 3 : wording.isCritical ? 5 : 4,
    tags: [wording.isRecovery ? 'white_check_mark' : wording.isCritical ? 'rotating_light' : 'warning'],
    ...(page && { click: page }),
  };
  return { url: [origin, ...folders, ''].join('/'), body, headers: bearer(channel) };
}

/** core.telegram.org/bots/api#sendmessage: 4,096 characters, with a few tags of HTML. */
function writeTelegram({ target, options }: ChannelSettings, message: AlertMessage): WebhookRequest {
  const wording = putIntoWords(message);
  const style = {
    escapeText: escapeHtml,
    bold: (text: string) => `<b>${text}</b>`,
    code: (text: string) => `<pre>${escapeHtml(text)}</pre>`,
    mono: (text: string) => `<code>${escapeHtml(text)}</code>`,
    link: escapeHtml,
  };
  const { token, chat } = options;
  const body = {
    chat_id: chat,
    text: writeMarked(wording, style, 4_000),
    parse_mode: 'HTML',
    link_preview_options: { is_disabled: true },
    disable_notification: wording.isRecovery,
  };
  const server = (target || 'https://api.telegram.org').replace(/\/+$/, '');
  return { url: `${server}/bot${token}/sendMessage`, body };
}

/** pushover.net/api: a title of 250 characters, a message of 1,024. */
function writePushover({ target, options }: ChannelSettings, message: AlertMessage, createdAt: number): WebhookRequest {
  const wording = putIntoWords(message);
  const page = wording.parts[0]?.page;
  const body = {
    token: options.token,
    user: options.user,
    title: keepStart(wording.subject, 250),
    message: keepStart(writePlain(wording, 1_024), 1_024),
    priority: wording.isCritical ? 1 : 0,
    timestamp: Math.floor(createdAt / 1000),
    ...(page && { url: page, url_title: 'Open in the dashboard' }),
  };
  return { url: target || 'https://api.pushover.net/1/messages.json', body };
}

/** How a service marks text. */
interface Style {
  readonly escapeText: (text: string) => string;
  /** Takes text that is escaped. */
  readonly bold: (text: string) => string;
  /** Takes text that is not escaped. */
  readonly code: (text: string) => string;
  readonly mono: (text: string) => string;
  /** Takes an address. */
  readonly link: (address: string) => string;
}

/** A fence in the text would end the block. */
function fence(text: string): string {
  return `\`\`\`\n${text.replaceAll('```', "'''")}\n\`\`\``;
}

function tick(text: string): string {
  return `\`${text.replaceAll('`', "'")}\``;
}

/** Shortens outputs, then leaves them out, then leaves out incidents: no mark is ever cut in two. */
function writeMarked(wording: Wording, style: Style, most: number): string {
  const { parts } = wording;
  for (const longestOutput of [1_500, 400, 0]) {
    const text = joinMarked(wording, parts.length, style, longestOutput);
    if (text.length <= most) return text;
  }
  for (let count = parts.length - 1; count > 0; count -= 1) {
    const text = joinMarked(wording, count, style, 0);
    if (text.length <= most) return text;
  }
  return style.escapeText(keepStart(wording.subject, Math.floor(most / 6)));
}

function joinMarked(wording: Wording, count: number, style: Style, longestOutput: number): string {
  const { parts, more, origin } = wording;
  const texts = parts.slice(0, count).map((part) => markPart(part, style, longestOutput));
  const left = parts.length - count;
  const rest = [...(left > 0 ? [`and ${left} more`] : []), ...(more === null ? [] : [keepStart(more, 500)]), origin];
  return [...texts, ...rest.map(style.escapeText)].join('\n\n');
}

function markPart({ title, facts, output, command, page }: Part, style: Style, longestOutput: number): string {
  const lines = facts.map(([name, text]) => `${name}: ${style.escapeText(keepStart(text, 300))}`);
  const shown = output !== null && longestOutput > 0 ? [style.code(keepEnd(output, longestOutput))] : [];
  const link = page === null ? [] : [style.link(page)];
  return [style.bold(style.escapeText(title)), ...lines, ...shown, style.mono(command), ...link].join('\n');
}

function fitBytes(text: string, most: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= most) return text;
  return `${bytes
    .subarray(0, most - 4)
    .toString('utf8')
    .replace(/\ufffd+$/, '')}…`;
}
