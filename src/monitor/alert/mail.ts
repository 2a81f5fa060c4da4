import { hostname } from 'node:os';
import nodemailer from 'nodemailer';
import { type ChannelSettings, isAddress, isLocalHost } from '../../settings/channels.ts';
import { errorCode } from '../../system/base/errors.ts';
import { firstLine } from '../../system/base/text.ts';
import { findSendmail, isExecutable } from '../../system/process/programs.ts';
import { userName } from '../../system/process/user.ts';
import { NO_SENDMAIL, type Outgoing } from './forms.ts';
import { putIntoWords, writeHtml, writePlain } from './message.ts';
import {
  describeAborted,
  describeNetworkFailure,
  environmentFor,
  failed,
  feedProgram,
  type SendPlace,
  type Sent,
} from './transport.ts';

/** One mail, ready to be read. */
export interface MailContent {
  /** Its Message-ID, the same at each try. */
  readonly id: string;
  /** Mail programs show the mails of a thread together; null: it belongs to none. */
  readonly thread: string | null;
  readonly createdAt: number;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  readonly isUrgent: boolean;
}

/** Writes an alert as a mail. */
export function toMail({ id, createdAt, message }: Outgoing): MailContent {
  const wording = putIntoWords(message);
  const [first, second] = message.incidents;
  const thread = first !== undefined && second === undefined ? `incident-${first.id}-${first.openedAt}` : null;
  const text = writePlain(wording);
  const html = writeHtml(wording);
  return { id, thread, createdAt, subject: wording.subject, text, html, isUrgent: wording.isCritical };
}

/**
 * Sends one mail by the channel's SMTP server, else by the local sendmail.
 *
 * @param channel with its values read from the environment
 */
export async function sendMail(channel: ChannelSettings, content: MailContent, place: SendPlace): Promise<Sent> {
  const to = channel.target.split(',').map((address) => address.trim());
  const from = channel.options.from ?? defaultSender(channel.options.smtp);
  const wrong = [...to, from].find((address) => !isAddress(address));
  if (wrong !== undefined) return failed(`${JSON.stringify(wrong)} is not a mail address such as me@example.org`, true);
  const mail = composeMail(content, to, from);
  return channel.options.smtp === undefined
    ? await sendLocally(channel, mail, place)
    : await sendBySmtp(channel.options.smtp, mail, place);
}

function composeMail(
  { id, thread, createdAt, subject, text, html, isUrgent }: MailContent,
  to: string[],
  from: string,
) {
  const host = from.slice(from.lastIndexOf('@') + 1);
  const parent = thread === null ? {} : { references: `<${thread}@${host}>`, inReplyTo: `<${thread}@${host}>` };
  return {
    ...{ from, to, subject, text, html, ...parent },
    messageId: `<${id}@${host}>`,
    disableFileAccess: true,
    disableUrlAccess: true,
    date: new Date(createdAt),
    ...(isUrgent ? { priority: 'high' as const } : {}),
    headers: {
      // RFC 3834, and what Exchange reads: nobody is on holiday for a program.
      'Auto-Submitted': 'auto-generated',
      'X-Auto-Response-Suppress': 'All',
    },
  };
}

type Mail = ReturnType<typeof composeMail>;

/** As cron's own mails have it; of a server that asks for a user, mostly the only one that it takes. */
function defaultSender(smtp: string | undefined): string {
  const url = smtp === undefined ? null : URL.parse(smtp);
  const user = decode(url?.username ?? '');
  if (isAddress(user)) return user;
  const host = hostname();
  return `${user || userName('runner')}@${host.includes('.') || url === null ? host : url.hostname}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A server that stands still is given up sooner than the whole time that sending has. */
const SILENCE_MS = 8_000;

async function sendBySmtp(smtp: string, mail: Mail, { signal }: SendPlace): Promise<Sent> {
  const url = URL.parse(smtp);
  if (url === null || !/^smtps?:$/.test(url.protocol)) {
    return failed('the SMTP server must be a URL such as smtps://user:password@mail.example.org', true);
  }
  // Without that, whoever stands in between could have the password sent in the clear.
  const requireTLS = url.username !== '' && !isLocalHost(url.hostname);
  const transport = nodemailer.createTransport({
    url: smtp,
    requireTLS,
    connectionTimeout: SILENCE_MS,
    greetingTimeout: SILENCE_MS,
    socketTimeout: SILENCE_MS,
    dnsTimeout: SILENCE_MS,
    socketCloseTimeout: 0,
  });
  try {
    const { response, rejected } = await transport.sendMail({ ...mail, signal });
    const refused = rejected.map(String).join(', ');
    const answer = `${url.host}: ${firstLine(response)}`;
    return refused === '' ? { ok: true, answer } : { ok: true, answer: `${answer}; refused: ${refused}`, refused };
  } catch (error) {
    return describeSmtpFailure(url, error, signal);
  } finally {
    transport.close();
  }
}

interface SmtpError extends Error {
  /** The code of the server's answer. */
  readonly responseCode?: number;
  readonly response?: string;
}

function describeSmtpFailure({ host }: URL, error: unknown, signal: AbortSignal): Sent {
  if (signal.aborted) return failed(describeAborted(host, signal));
  const { responseCode = 0, response } = error as SmtpError;
  // A wrong order of commands says nothing about the mail.
  const isPermanent = responseCode >= 500 && responseCode !== 503;
  if (response !== undefined && responseCode >= 400) {
    return failed(`${host} answered ${firstLine(response).slice(0, 200)}`, isPermanent);
  }
  const isTlsMissing = errorCode(error) === 'ETLS' && /STARTTLS/i.test((error as Error).message);
  if (isTlsMissing) return failed(`${host}: the password was not sent, as the server offers no TLS (STARTTLS)`);
  return failed(describeNetworkFailure(host, (error as Error).cause ?? error));
}

/** Permanent failures of sysexits.h: wrong use, data, address, configuration. */
const permanentExits = [64, 65, 67, 77, 78, 127];

async function sendLocally(channel: ChannelSettings, mail: Mail, place: SendPlace): Promise<Sent> {
  const { sendmail, from } = channel.options;
  const command = sendmail ?? findSendmail(place.environment);
  if (command === null) return failed(NO_SENDMAIL, true);
  if (!isExecutable(command)) return failed(`${command} is not a program that can be run`, true);
  const composer = nodemailer.createTransport({ streamTransport: true, buffer: true, newline: 'unix' });
  const { message } = await composer.sendMail(mail);
  // Without `from` the mail program knows best who sends.
  const args = ['-i', ...(from === undefined ? [] : ['-f', from]), ...mail.to];
  const env = environmentFor(place.environment);
  const { signal, root } = place;
  const end = await feedProgram({ command, args, cwd: root, env, input: message as Buffer, signal });
  if (end.reason !== null) return failed(end.reason, permanentExits.includes(end.exitCode ?? 0));
  return { ok: true, answer: `accepted by ${command}` };
}
