import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';
import { onTestFinished } from 'vitest';

export interface ReceivedMail {
  readonly to: readonly string[];
  /** With its lines as they were sent, in quoted-printable mostly. */
  readonly source: string;
}

/** A real SMTP server that keeps what it gets. */
export async function startMailServer(): Promise<{ readonly url: string; readonly mails: ReceivedMail[] }> {
  const mails: ReceivedMail[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    disableReverseLookup: true,
    onData: (stream, session, done) => {
      void text(stream).then((source) => {
        mails.push({ to: session.envelope.rcptTo.map(({ address }) => address), source });
        done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise<void>((resolve) => server.close(resolve)));
  const { port } = server.server.address() as AddressInfo;
  return { url: `smtp://127.0.0.1:${port}`, mails };
}

/** The text of a mail's part, decoded. */
export function readPart({ source }: ReceivedMail, type: string): string {
  const [, boundary = '--'] = /boundary="(.+?)"/.exec(source) ?? [];
  const part = source.split(`--${boundary}`).find((each) => each.includes(`Content-Type: ${type}`)) ?? '';
  const [, body = ''] = part.split(/\r?\n\r?\n(.*)/s);
  if (/Content-Transfer-Encoding: base64/i.test(part)) return Buffer.from(body, 'base64').toString('utf8');
  const bytes = body
    .replace(/=\r?\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString('utf8').replaceAll('\r\n', '\n');
}
