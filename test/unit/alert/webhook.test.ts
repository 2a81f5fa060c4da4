import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sendByChannel } from '../../../src/monitor/alert/channels.ts';
import type { AlertMessage } from '../../../src/monitor/alert/message.ts';
import { readRetryAfter } from '../../../src/monitor/alert/transport.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { AT, channelOf, messageOf, serve } from '../../support/alerts.ts';
import { makeSelfSignedCertificate } from '../../support/engines/own-server.ts';

interface SendOptions {
  readonly environment?: NodeJS.ProcessEnv;
  readonly message?: AlertMessage;
  readonly timeoutMs?: number;
}

async function send(input: Readonly<Record<string, unknown>>, options: SendOptions = {}) {
  const { environment = {}, message = messageOf(), timeoutMs = 10_000 } = options;
  const channel = channelOf({ kind: 'webhook', ...input });
  const signal = AbortSignal.timeout(timeoutMs);
  const place = { root: '/', version: '0.1.0', environment, settings: defaultSettings, signal };
  return await sendByChannel(channel, { id: 'runner-abc-1', createdAt: AT, message }, place);
}

describe('without TLS', () => {
  const environment = { TOKEN: 'geheim42' };
  const refused = { ok: false, reason: expect.stringContaining('must begin with https://') };

  test.each([
    { url: '$HOOK', token: '$TOKEN' },
    { url: '$HOOK', preset: 'slack' },
    { url: '$HOOK', preset: 'ntfy' },
    { url: '$HOOK', preset: 'telegram', token: '$TOKEN', chat: '1' },
    { url: '$LOGIN' },
  ])('no token leaves this host: %j', async (input) => {
    const places = { HOOK: 'http://192.0.2.1/hook', LOGIN: 'http://me:geheim42@192.0.2.1/hook' };
    expect(await send(input, { environment: { ...environment, ...places } })).toMatchObject(refused);
  });

  test('a server of this host gets it', async () => {
    const { url, asked } = await serve();
    expect(await send({ url, token: '$TOKEN' }, { environment })).toMatchObject({ ok: true });
    expect(asked[0]?.headers.authorization).toBe('Bearer geheim42');
  });
});

describe('a server that', () => {
  test('moved for good is followed with the message', async () => {
    const { url: target, asked } = await serve();
    const { url } = await serve((_, response) => void response.writeHead(308, { location: `${target}/new` }).end());

    expect(await send({ url })).toMatchObject({ ok: true });

    expect(asked).toMatchObject([{ method: 'POST', path: '/new', body: JSON.stringify(messageOf()) }]);
  });

  test('redirects elsewhere does not learn the token', async () => {
    const { url: target, asked } = await serve();
    const { url } = await serve((_, response) => void response.writeHead(307, { location: target }).end());

    await send({ url: url.replace('127.0.0.1', 'localhost'), token: '$TOKEN' }, { environment: { TOKEN: 'geheim42' } });

    expect(asked).toHaveLength(1);
    expect(asked[0]?.headers.authorization).toBeUndefined();
  });

  test('redirects in circles is given up', async () => {
    const { url, asked } = await serve((_, response) => void response.writeHead(307, { location: '/' }).end());

    expect(await send({ url })).toMatchObject({ ok: false, reason: expect.stringContaining('again and again') });
    expect(asked.length).toBeLessThan(8);
  });

  test('redirects so that the message would be dropped has not got it', async () => {
    const { url: target, asked } = await serve();
    const { url } = await serve((_, response) => void response.writeHead(302, { location: target }).end());

    expect(await send({ url })).toMatchObject({ ok: false, reason: expect.stringContaining('drops the message') });
    expect(asked).toEqual([]);
  });

  test('is slow is given up in time', async () => {
    const { url, port } = await serve(() => {});

    const sent = await send({ url }, { timeoutMs: 200 });

    expect(sent).toMatchObject({ ok: false, isPermanent: false, reason: `127.0.0.1:${port}: no answer in time` });
  });

  test('answers without an end has answered', async () => {
    const { url } = await serve((_, response) => {
      response.writeHead(200);
      const write = () => response.write('x'.repeat(65_536), () => response.destroyed || setImmediate(write));
      write();
    });

    expect(await send({ url })).toMatchObject({ ok: true });
  });

  test('closes the connection has not got it', async () => {
    const { url } = await serve((_, response) => void response.destroy());

    expect(await send({ url })).toMatchObject({ ok: false, isPermanent: false });
  });

  test('repeats what it was sent tells no secret to the log', async () => {
    const { url } = await serve(({ path, headers }, response) => {
      response.writeHead(403).end(`forbidden: ${path} ${headers.authorization}`);
    });
    const environment = { HOOK: `${url}/services/T0/B0/geheimgeheim`, TOKEN: 'streng-geheim' };

    const sent = await send({ url: '$HOOK', token: '$TOKEN' }, { environment });

    expect(sent).toMatchObject({ ok: false, isPermanent: true });
    expect(JSON.stringify(sent)).not.toContain('geheim');
  });

  test('has a certificate that nobody vouches for is refused', async () => {
    const certificate = makeSelfSignedCertificate(new Date(Date.now() + 86_400_000));
    const server = createServer(certificate, (_, response) => void response.end());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;

    const sent = await send({ url: `https://localhost:${port}` });

    expect(sent).toMatchObject({ ok: false, reason: expect.stringContaining('its certificate is self-signed') });
  });
});

test.each([
  ['120', 120_000],
  ['0.5', 500],
  ['Sun, 22 Nov 2026 14:01:00 GMT', 60_000],
  ['soon', null],
  [undefined, null],
])('Retry-After %s is a wait of %s ms', (text, expected) => {
  expect(readRetryAfter(text, AT)).toBe(expected);
});

const hostile = messageOf({
  error: 'a < b & c > d `tick` *bold* @everyone\u001b[31m',
  output: `\`\`\`fence\n${'x'.repeat(20_000)}\nthe last line`,
});

/** Sends to the preset on this machine, and what arrived. */
async function post(preset: string, input: Readonly<Record<string, unknown>>, message: AlertMessage) {
  const { url, asked } = await serve();
  const environment = { TOKEN: 'bot-token-1' };
  const target = 'url' in input ? { url: `${url}${input.url}` } : { url };
  expect(await send({ preset, ...input, ...target }, { environment, message })).toMatchObject({ ok: true });
  const { body = '', path, headers } = asked[0] ?? {};
  return { body: JSON.parse(body), path, headers };
}

const linked = {
  slack: { input: {}, link: '<https://example.org/runner/#/scripts/a_b/c>' },
  discord: { input: {}, link: '<https://example.org/runner/#/scripts/a_b/c>' },
  teams: { input: {}, link: '"url":"https://example.org/runner/#/scripts/a_b/c"' },
  ntfy: { input: { url: '/topic' }, link: '"click":"https://example.org/runner/#/scripts/a_b/c"' },
  telegram: { input: { token: '$TOKEN', chat: '1' }, link: '\\nhttps://example.org/runner/#/scripts/a_b/c' },
  pushover: { input: { token: '$TOKEN', user: 'u' }, link: '"url":"https://example.org/runner/#/scripts/a_b/c"' },
};

describe('each service gets its own form', () => {
  test('slack: one text in mrkdwn, escaped as it asks for', async () => {
    const { body } = await post('slack', {}, hostile);

    expect(Object.keys(body)).toEqual(['text', 'unfurl_links', 'unfurl_media']);
    expect(body.text).toContain('*hourly/backup is failing*');
    expect(body.text).toContain('a &lt; b &amp; c &gt; d');
    expect(body.text).toContain('the last line\n```');
    expect(body.text.length).toBeLessThanOrEqual(3_000);
    expect(body.text.match(/```/g)).toHaveLength(2);
  });

  test('discord: an embed that calls nobody', async () => {
    const { body } = await post('discord', {}, hostile);

    expect(body.allowed_mentions).toEqual({ parse: [] });
    expect(body.embeds[0].title).toBe('[runner web3] hourly/backup is failing');
    expect(body.embeds[0].description).toContain('\\*bold\\*');
    expect(body.embeds[0].description.length).toBeLessThanOrEqual(4_096);
  });

  test('teams: an adaptive card', async () => {
    const { body } = await post('teams', {}, hostile);

    const [attachment] = body.attachments;
    expect([body.type, attachment.contentType]).toEqual(['message', 'application/vnd.microsoft.card.adaptive']);
    expect(attachment.content).toMatchObject({ type: 'AdaptiveCard', version: '1.4' });
    expect(JSON.stringify(body).length).toBeLessThan(28_000);
  });

  test('ntfy: JSON to the server, with topic, priority and token', async () => {
    const { body, path, headers } = await post('ntfy', { url: '/sub/my-site', token: '$TOKEN' }, hostile);

    expect(path).toBe('/sub/');
    expect(body).toMatchObject({ topic: 'my-site', priority: 5, tags: ['rotating_light'] });
    expect(Buffer.byteLength(body.message)).toBeLessThanOrEqual(4_096);
    expect(headers?.authorization).toBe('Bearer bot-token-1');
  });

  test('telegram: HTML in a text of 4,096 characters, the token in the path', async () => {
    const { body, path } = await post('telegram', { url: '', token: '$TOKEN', chat: -100123 }, hostile);

    expect(path).toBe('/botbot-token-1/sendMessage');
    expect(body).toMatchObject({ chat_id: '-100123', parse_mode: 'HTML', link_preview_options: { is_disabled: true } });
    expect(body.text).toContain('<b>hourly/backup is failing</b>');
    expect(body.text).toContain('a &lt; b &amp; c');
    expect(body.text.length).toBeLessThanOrEqual(4_096);
  });

  test('pushover: token, user, and 1,024 characters', async () => {
    const { body } = await post('pushover', { token: '$TOKEN', user: 'u1' }, hostile);

    expect(body).toMatchObject({ token: 'bot-token-1', user: 'u1', priority: 1, timestamp: AT / 1000 });
    expect(body.message.length).toBeLessThanOrEqual(1_024);
  });

  test.each(Object.entries(linked))('%s: the page of the dashboard is a link', async (preset, { input, link }) => {
    const { body } = await post(preset, input, messageOf({ page: 'https://example.org/runner/#/scripts/a_b/c' }));
    expect(JSON.stringify(body)).toContain(link);
    const { body: hostile } = await post(preset, input, messageOf({ page: 'javascript:alert(1)' }));
    expect(JSON.stringify(hostile)).not.toContain('javascript:');
  });

  test.each(['slack', 'discord', 'teams', 'ntfy', 'telegram', 'pushover'])('%s: a storm fits', async (preset) => {
    const storm = messageOf(
      ...Array.from({ length: 500 }, (_, id) => ({
        id,
        subject: `hourly/${'n'.repeat(100)}-${id}`,
        error: '🔥<'.repeat(999),
      })),
    );
    const input = {
      ntfy: { url: '/topic' },
      telegram: { token: '$TOKEN', chat: '1' },
      pushover: { token: '$TOKEN', user: 'u' },
    }[preset];

    const { body } = await post(preset, input ?? {}, storm);

    const limits: Readonly<Record<string, number>> = { slack: 4_000, discord: 6_500, teams: 28_000, ntfy: 5_000 };
    expect(JSON.stringify(body).length).toBeLessThan(limits[preset] ?? 6_000);
    expect(JSON.stringify(body)).not.toMatch(/\\ud[89a-f][0-9a-f]{2}/);
  });
});
