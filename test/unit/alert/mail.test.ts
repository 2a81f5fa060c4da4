import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sendByChannel } from '../../../src/monitor/alert/channels.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { AT, channelOf, messageOf, openPlace } from '../../support/alerts.ts';
import { makeSelfSignedCertificate } from '../../support/engines/own-server.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

interface Received {
  readonly from: string;
  readonly to: readonly string[];
  readonly text: string;
  readonly secure: boolean;
  readonly user: unknown;
}

/** A real mail server on this machine; gone with the test. */
async function serveMail(options: SMTPServerOptions = {}) {
  const received: Received[] = [];
  const certificate = makeSelfSignedCertificate(new Date(Date.now() + 86_400_000));
  const server = new SMTPServer({
    ...certificate,
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
    onData: (stream, { envelope, secure, user }, done) => {
      const pieces: Buffer[] = [];
      stream.on('data', (piece: Buffer) => pieces.push(piece));
      stream.on('end', () => {
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
        const to = envelope.rcptTo.map(({ address }) => address);
        received.push({ from, to, text: Buffer.concat(pieces).toString('utf8'), secure, user });
        done(null, 'kept as 4711');
      });
    },
    ...options,
  });
  // A client that gives up is no error of the server's.
  server.on('error', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const address = server.server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return { received, host: `localhost:${port}` };
}

const login: SMTPServerOptions = {
  authOptional: false,
  disabledCommands: [],
  onAuth: ({ username, password }, _, done) => {
    if (username === 'me@example.org' && password === 'geheim/1') return done(null, { user: username });
    done(Object.assign(new Error(`no such user ${username}, or not ${password}`), { responseCode: 535 }));
  },
};

const outgoing = { id: 'runner-abc-1', createdAt: AT, message: messageOf() };

async function send(
  input: Readonly<Record<string, unknown>>,
  environment: NodeJS.ProcessEnv = {},
  { message = messageOf(), timeoutMs = 10_000, root = '/' } = {},
) {
  const channel = channelOf({ kind: 'mail', to: 'ops@example.org', ...input });
  const signal = AbortSignal.timeout(timeoutMs);
  const place = { root, version: '0.1.0', environment, settings: defaultSettings, signal };
  return await sendByChannel(channel, { ...outgoing, message }, place);
}

/** Whoever should collect it may be slow. */
const isDead = (pid: number): boolean => readFileSync(`/proc/${pid}/cmdline`, 'utf8') === '';

/** The headers of a mail, each in one line. */
function headersOf({ text }: Pick<Received, 'text'>): string {
  return (text.split('\r\n\r\n')[0] ?? '').replace(/\r\n[ \t]+/g, ' ');
}

describe('by a mail server', () => {
  test('a mail has text and HTML, and headers against answering machines', async () => {
    const { received, host } = await serveMail();

    const sent = await send({ smtp: '$SMTP_URL', from: 'site@example.org' }, { SMTP_URL: `smtp://${host}` });

    expect(sent).toEqual({ ok: true, answer: `${host}: 250 kept as 4711` });
    expect(received).toMatchObject([{ from: 'site@example.org', to: ['ops@example.org'] }]);
    const headers = headersOf(received[0] as Received);
    expect(headers).toContain('Subject: [runner web3] hourly/backup is failing');
    expect(headers).toContain('Message-ID: <runner-abc-1@example.org>');
    expect(headers).toContain('References: <incident-7-');
    expect(headers).toContain('Auto-Submitted: auto-generated');
    expect(headers).toContain('X-Auto-Response-Suppress: All');
    expect(headers).toContain('Date: Sun, 22 Nov 2026 14:00:00 +0000');
    const { text = '' } = received[0] ?? {};
    expect(text).toContain('Content-Type: text/plain');
    expect(text).toContain('Content-Type: text/html');
    expect(text).toContain('| tar: no space left');
  });

  test('a server that asks for a password gets it, under TLS from the start', async () => {
    const { received, host } = await serveMail({ ...login, secure: true });
    const SMTP_URL = `smtps://me%40example.org:geheim%2F1@${host}?tls.rejectUnauthorized=false`;

    expect(await send({ smtp: '$SMTP_URL' }, { SMTP_URL })).toMatchObject({ ok: true });

    expect(received).toMatchObject([{ from: 'me@example.org', secure: true, user: 'me@example.org' }]);
  });

  test('a server that offers STARTTLS is talked to under TLS', async () => {
    const { received, host } = await serveMail(login);
    const SMTP_URL = `smtp://me%40example.org:geheim%2F1@${host}?tls.rejectUnauthorized=false`;

    expect(await send({ smtp: '$SMTP_URL' }, { SMTP_URL })).toMatchObject({ ok: true });

    expect(received).toMatchObject([{ secure: true }]);
  });

  test('a certificate that nobody vouches for is refused', async () => {
    const { received, host } = await serveMail({ secure: true });

    const sent = await send({ smtp: '$SMTP_URL' }, { SMTP_URL: `smtps://${host}` });

    expect(sent).toMatchObject({ ok: false, isPermanent: false });
    expect(sent).toMatchObject({ reason: expect.stringContaining('certificate') });
    expect(received).toEqual([]);
  });

  test('a password that could be read on the way is not sent', async () => {
    const asked: string[] = [];
    const { host } = await serveMail({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      allowInsecureAuth: true,
      onAuth: ({ username }, _, done) => {
        asked.push(username ?? '');
        done(null, { user: username });
      },
    });

    const address = host.replace('localhost', '127.0.0.1');
    const SMTP_URL = `smtp://me:geheim12@${address}?requireTLS=true`;
    const sent = await send({ smtp: '$SMTP_URL' }, { SMTP_URL });

    expect(sent).toMatchObject({ ok: false });
    expect(asked).toEqual([]);
  });

  test('a wrong password is told without telling it', async () => {
    const { host } = await serveMail({ ...login, secure: true });
    const SMTP_URL = `smtps://me%40example.org:falsch42@${host}?tls.rejectUnauthorized=false`;

    const sent = await send({ smtp: '$SMTP_URL' }, { SMTP_URL });

    expect(sent).toMatchObject({ ok: false, isPermanent: true });
    expect(sent).toMatchObject({ reason: expect.stringMatching(/answered 535 .*no such user/) });
    expect(JSON.stringify(sent)).not.toContain('falsch42');
  });

  test('greylisting is no refusal', async () => {
    const { host } = await serveMail({
      onRcptTo: (_, __, done) => done(Object.assign(new Error('come back later'), { responseCode: 451 })),
    });

    const sent = await send({ smtp: '$SMTP_URL' }, { SMTP_URL: `smtp://${host}` });

    expect(sent).toEqual({ ok: false, isPermanent: false, retryAfterMs: null, reason: expect.any(String) });
    expect(sent).toMatchObject({ reason: expect.stringMatching(/answered 451 .*come back later/) });
  });

  test('an address that does not exist is refused for good', async () => {
    const { host } = await serveMail({
      onRcptTo: (_, __, done) => done(Object.assign(new Error('no such user here'), { responseCode: 550 })),
    });

    expect(await send({ smtp: '$SMTP_URL' }, { SMTP_URL: `smtp://${host}` })).toMatchObject({ isPermanent: true });
  });

  test('an address that is refused beside others is told in the log, and the others get it once', async () => {
    const { received, host } = await serveMail({
      onRcptTo: ({ address }, _, done) =>
        done(address.startsWith('gone') ? Object.assign(new Error('no such user'), { responseCode: 550 }) : null),
    });
    const channel = channelOf({ kind: 'mail', to: 'gone@example.org, ops@example.org', smtp: '$SMTP_URL' });
    const { add, deliver, root, waiting } = await openPlace([channel], { SMTP_URL: `smtp://${host}` });
    await add('mail');

    await deliver();

    expect(received).toMatchObject([{ to: ['ops@example.org'] }]);
    expect(await waiting()).toEqual([]);
    const events = queryLog(root, "select detail from activity where event = 'alert-undelivered'");
    expect(events).toEqual([{ detail: 'alert by mail: refused for gone@example.org' }]);
  });

  test('a server that stands still is given up in time', async () => {
    const { host } = await serveMail({ onMailFrom: () => {} });
    const began = performance.now();

    const sent = await send({ smtp: '$SMTP_URL' }, { SMTP_URL: `smtp://${host}` }, { timeoutMs: 300 });

    expect(sent).toMatchObject({ ok: false, reason: `${host}: no answer in time` });
    expect(performance.now() - began).toBeLessThan(3_000);
  });

  test('a server that is gone is named', async () => {
    const sent = await send({ smtp: '$SMTP_URL' }, { SMTP_URL: 'smtp://127.0.0.1:1' });

    expect(sent).toMatchObject({ ok: false, isPermanent: false });
    expect(sent).toMatchObject({ reason: expect.stringContaining('127.0.0.1:1') });
  });
});

describe('hostile content', () => {
  test('breaks neither headers nor HTML, and moves no cursor', async () => {
    const { received, host } = await serveMail();
    const message = messageOf({
      subject: 'hourly/x\r\nBcc: all@example.org',
      error: '<script>alert(1)</script>\u001b[2J\u202egnp.exe',
      output: '.\r\nQUIT\r\n</pre><img src=x onerror=alert(1)>',
    });

    expect(await send({ smtp: '$SMTP_URL' }, { SMTP_URL: `smtp://${host}` }, { message })).toMatchObject({ ok: true });

    expect(received).toMatchObject([{ to: ['ops@example.org'] }]);
    const { text } = received[0] as Received;
    expect(headersOf({ text })).not.toMatch(/^Bcc:/m);
    const html = text.slice(text.indexOf('text/html'));
    expect(html).not.toMatch(/<script|<img/);
    expect(html).toContain('&lt;script&gt;');
    for (const hostile of ['\u001b', '=1B', '\u202e', '=E2=80=AE']) expect(text).not.toContain(hostile);
  });

  test('a page that is no address is no link', async () => {
    const { received, host } = await serveMail();
    const pages = ['https://example.org/runner/#/runs/41', 'https://a"onclick=alert(1)', 'javascript:alert(1)'];
    const message = messageOf(...pages.map((page, id) => ({ id, page })));
    await send({ smtp: '$SMTP_URL' }, { SMTP_URL: `smtp://${host}` }, { message });
    const { text = '' } = received[0] ?? {};
    const whole = text.replaceAll('=\r\n', '').replaceAll('=3D', '=');
    expect(whole).toContain('  page      https://example.org/runner/#/runs/41');
    expect([...whole.matchAll(/href="([^"]*)"/g)].map(([, href]) => href)).toEqual([pages[0]]);
    expect(whole).not.toMatch(/javascript:|onclick/);
  });

  test('however much there is, a mail stays readable', async () => {
    const { received, host } = await serveMail();
    const many = Array.from({ length: 500 }, (_, id) => ({
      id,
      subject: `hourly/script-${id}`,
      output: 'x'.repeat(1e5),
    }));

    await send({ smtp: '$SMTP_URL' }, { SMTP_URL: `smtp://${host}` }, { message: messageOf(...many) });

    const { text = '' } = received[0] ?? {};
    expect(text.length).toBeLessThan(500_000);
    expect(headersOf({ text })).toContain(
      '500 problems: hourly/script-0, hourly/script-1, hourly/script-2 and 497 more',
    );
  });
});

describe('by the local mail program', () => {
  const keeps = '#!/bin/sh\nprintf "%s\\n" "$@" > args\ncat > mail\nenv > env\n';

  test('it gets the mail on stdin, and the sender and the addresses as arguments', async () => {
    const root = makeTemporaryRoot({ sendmail: executable(keeps) });
    const input = {
      sendmail: join(root, 'sendmail'),
      from: 'site@example.org',
      to: ['a@example.org', 'b@example.org'],
    };

    const sent = await send(input, { HOME: root, DB_PASSWORD: 'geheim' }, { root });

    expect(sent).toEqual({ ok: true, answer: `accepted by ${join(root, 'sendmail')}` });
    expect(readFileSync(join(root, 'args'), 'utf8')).toBe('-i\n-f\nsite@example.org\na@example.org\nb@example.org\n');
    const mail = readFileSync(join(root, 'mail'), 'utf8');
    expect(mail).toContain('To: a@example.org, b@example.org\n');
    expect(mail).toContain('Subject: [runner web3] hourly/backup is failing\n');
    expect(readFileSync(join(root, 'env'), 'utf8')).not.toContain('geheim');
  });

  test('without a sender it says who sends', async () => {
    const root = makeTemporaryRoot({ sendmail: executable(keeps) });

    await send({ sendmail: join(root, 'sendmail') }, { HOME: root }, { root });

    expect(readFileSync(join(root, 'args'), 'utf8')).toBe('-i\nops@example.org\n');
  });

  test('what it complains about is told', async () => {
    const root = makeTemporaryRoot({ sendmail: executable('#!/bin/sh\necho "mailbox unavailable" >&2\nexit 67\n') });
    const sendmail = join(root, 'sendmail');

    const sent = await send({ sendmail }, {}, { root });

    expect(sent).toMatchObject({ isPermanent: true, reason: `${sendmail}: exit code 67: mailbox unavailable` });
  });

  test('one that never ends is killed with all that it has started', async () => {
    const root = makeTemporaryRoot({
      sendmail: executable('#!/bin/sh\nsleep 60 & echo $! > new && mv new pid\nwait\n'),
    });
    const input = channelOf({ kind: 'mail', to: 'ops@example.org', sendmail: join(root, 'sendmail') });
    const stop = new AbortController();
    const place = {
      root,
      version: '0.1.0',
      environment: { HOME: root },
      settings: defaultSettings,
      signal: stop.signal,
    };

    const sending = sendByChannel(input, outgoing, place);
    await until('it has started another', () => existsSync(join(root, 'pid')));
    stop.abort();

    expect(await sending).toMatchObject({ ok: false, reason: expect.stringContaining('told to stop') });
    const pid = Number(readFileSync(join(root, 'pid'), 'utf8'));
    await until('what it has started is gone', () => !existsSync(`/proc/${pid}/cmdline`) || isDead(pid));
  });

  test('where there is none, the sentence says what to do', async () => {
    const root = makeTemporaryRoot();

    const sent = await send({ sendmail: join(root, 'sendmail') }, {}, { root });

    expect(sent).toMatchObject({
      isPermanent: true,
      reason: `${join(root, 'sendmail')} is not a program that can be run`,
    });
  });
});
