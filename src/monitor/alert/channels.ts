import { createHash } from 'node:crypto';
import { findSecrets, maskSecrets } from '../../execution/secrets.ts';
import { type ChannelKind, type ChannelSettings, isInClear } from '../../settings/channels.ts';
import { variableReference } from '../../settings/readers.ts';
import { ownEnvironment } from '../../settings/settings.ts';
import {
  describeMissing,
  missingVariables,
  NEEDS_TLS,
  type Outgoing,
  readChannelValues,
  tellsSecret,
  writeWebhook,
} from './forms.ts';
import type { MailContent } from './mail.ts';
import { putIntoWords } from './message.ts';
import { environmentFor, failed, feedProgram, judgeAnswer, type SendPlace, type Sent, sendHttp } from './transport.ts';

/** A hash of the root: it distinguishes the messages of roots without naming their paths. */
export function siteOf(root: string): string {
  return createHash('sha256').update(root).digest('hex').slice(0, 12);
}

type Send = (channel: ChannelSettings, outgoing: Outgoing, place: SendPlace) => Promise<Sent>;

const senders: Readonly<Record<ChannelKind, Send>> = {
  mail: async (channel, outgoing, place) => {
    const { sendMail, toMail } = await import('./mail.ts');
    return await sendMail(channel, toMail(outgoing), place);
  },
  webhook: sendWebhook,
  command: sendByCommand,
};

/** Sends one alert by one channel. It never throws about the other side, and its answer holds no secret. */
export function sendByChannel(channel: ChannelSettings, outgoing: Outgoing, place: SendPlace): Promise<Sent> {
  return sendBy(channel, place, (read, own) => senders[channel.kind](read, outgoing, own));
}

/** Sends any mail by a channel that sends mail. */
export async function sendMailBy(channel: ChannelSettings, mail: MailContent, place: SendPlace): Promise<Sent> {
  const { sendMail } = await import('./mail.ts');
  return await sendBy(channel, place, (read, own) => sendMail(read, mail, own));
}

async function sendBy(
  channel: ChannelSettings,
  asked: SendPlace,
  send: (read: ChannelSettings, place: SendPlace) => Promise<Sent>,
): Promise<Sent> {
  const place = { ...asked, environment: ownEnvironment(asked) };
  const missing = missingVariables(channel, place.environment);
  // Another invocation may have them: cron's environment differs from a terminal's.
  if (missing.length > 0) return failed(describeMissing(missing));
  const read = readChannelValues(channel, place.environment);
  return withoutSecrets(await send(read, place), read, place);
}

/** Masks secrets in an answer that may repeat the request. The path of a URL may be as good as a password. */
function withoutSecrets(
  sent: Sent,
  { target, options }: Pick<ChannelSettings, 'target' | 'options'>,
  { environment, settings }: SendPlace,
): Sent {
  const paths = [target, options.smtp ?? ''].flatMap((text) => {
    const url = URL.parse(text);
    return url === null ? [] : [url.pathname + url.search, url.pathname, url.password];
  });
  const values = [...paths, options.token ?? '', options.user ?? ''].filter((value) => value.length >= 6);
  const own = values
    .toSorted((one, other) => other.length - one.length)
    .map((value) => ({ value: Buffer.from(value).toString('latin1'), mask: '[secret]' }));
  const mask = maskSecrets([...findSecrets(settings, environment), ...own]);
  return sent.ok ? { ...sent, answer: mask.text(sent.answer) } : { ...sent, reason: mask.text(sent.reason) };
}

async function sendWebhook(channel: ChannelSettings, outgoing: Outgoing, place: SendPlace): Promise<Sent> {
  const { url, body, headers, holdsSecret } = writeWebhook(channel, outgoing);
  if (!isWebUrl(URL.parse(url))) return failed('the URL is not valid: it must begin with https://', true);
  if (tellsSecret(channel)) return failed(NEEDS_TLS, true);
  const own = {
    'content-type': 'application/json; charset=utf-8',
    // A draft of the IETF: a service that knows it takes a message with the same key once.
    'idempotency-key': outgoing.id,
    ...headers,
  };
  return await post({ url, headers: own, body: JSON.stringify(body), followsRedirects: !holdsSecret }, place);
}

const isWebUrl = (url: URL | null): url is URL => url !== null && /^https?:$/.test(url.protocol);

interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly followsRedirects: boolean;
}

async function post(request: Post, { version, environment, signal }: SendPlace): Promise<Sent> {
  const headers = { 'user-agent': `folder-runner/${version}`, ...request.headers };
  try {
    return judgeAnswer(request.url, await sendHttp({ ...request, headers, method: 'POST', signal, environment }));
  } catch (error) {
    return failed((error as Error).message);
  }
}

/** A sign of life of one run or pass, for a service that notices when none comes. */
export interface Ping {
  /** As in the settings or a tag: a URL, or `$NAME`. */
  readonly url: string;
  /** `log`: a failure that is followed by another try. */
  readonly state: 'start' | 'success' | 'fail' | 'log';
  /** The exit code of a failure; null: it has none. */
  readonly exitCode: number | null;
  /** The same for a start and its end. */
  readonly runId: string;
  /** The text that the service shows; '' for a start. */
  readonly text: string;
}

/** A ping as it waits in the log, to which other programs may write: the settings and tags say where it goes. */
export type QueuedPing = Omit<Ping, 'url'>;

/** @throws if no runner has written the body */
export function readQueuedPing(body: string): QueuedPing {
  const { state, exitCode, runId, text } = JSON.parse(body) as Partial<Ping>;
  const isState = state === 'start' || state === 'success' || state === 'fail' || state === 'log';
  if (!isState || typeof runId !== 'string' || typeof text !== 'string') throw new Error('its body is no ping');
  return { state, runId, text, exitCode: Number.isInteger(exitCode) ? (exitCode as number) : null };
}

/** Sends a sign of life, in the style of healthchecks.io. It never throws about the other side. */
export async function sendPing(ping: Ping, asked: SendPlace): Promise<Sent> {
  const place = { ...asked, environment: ownEnvironment(asked) };
  const name = variableReference.test(ping.url) ? ping.url.slice(1) : null;
  const base = name === null ? ping.url : (place.environment[name] ?? '').trim();
  if (name !== null && base === '') return failed(describeMissing([name]));
  const url = URL.parse(base);
  if (!isWebUrl(url)) return failed('the ping URL is not valid', true);
  if (isInClear(url) && url.username + url.password !== '') {
    return failed('the ping URL must begin with https://, as its password would be sent in the clear', true);
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${suffixOf(ping)}`;
  url.searchParams.set('rid', ping.runId);
  const headers = { 'content-type': 'text/plain; charset=utf-8' };
  const sent = await post({ url: url.href, headers, body: ping.text, followsRedirects: true }, place);
  return withoutSecrets(sent, { target: base, options: {} }, place);
}

/** The end of a ping's path. An exit code of 0 would be a success. */
function suffixOf({ state, exitCode }: Ping): string {
  if (state === 'success') return '';
  return state === 'fail' && exitCode !== null && exitCode > 0 && exitCode < 256 ? `/${exitCode}` : `/${state}`;
}

/**
 * Runs the channel's line by `/bin/sh` in the root. The message stands on stdin, as JSON; nothing of it is part of
 * the line, and the few variables hold no more than one line of text each.
 */
async function sendByCommand(channel: ChannelSettings, { id, message }: Outgoing, place: SendPlace): Promise<Sent> {
  const end = await feedProgram({
    command: '/bin/sh',
    args: ['-c', channel.target],
    cwd: place.root,
    env: {
      ...environmentFor(place.environment, channel.options.env?.split(' ')),
      RUNNER_ROOT: place.root,
      RUNNER_ALERT_ID: id,
      RUNNER_ALERT_EVENT: message.event,
      RUNNER_ALERT_SUBJECT: putIntoWords(message).subject,
    },
    input: `${JSON.stringify(message)}\n`,
    signal: place.signal,
  });
  if (end.reason === null) return { ok: true, answer: `exit code 0${end.said === '' ? '' : `: ${end.said}`}` };
  // 126: it may not be executed. 127: there is no such program.
  return failed(end.reason.replace(/^\/bin\/sh/, 'the command'), end.exitCode === 126 || end.exitCode === 127);
}
