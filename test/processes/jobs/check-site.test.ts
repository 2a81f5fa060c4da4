import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Ended } from '../../support/command.ts';
import { makeSelfSignedCertificate } from '../../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { runShippedJob } from '../../support/run.ts';

const DAY_MS = 86_400_000;

const check = (variables: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  runShippedJob('15min/check-site.ts', makeTemporaryRoot(), variables);

const listen = async (server: Server): Promise<number> => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
};

const serve = async (answer: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await listen(createServer(answer))}/`;

/** A site with a certificate that lasts so long, and the variables with which it is trusted. */
const serveTls = async (days: number): Promise<Record<string, string>> => {
  const certificate = makeSelfSignedCertificate(new Date(Date.now() + days * DAY_MS));
  const root = makeTemporaryRoot();
  writeFileSync(join(root, 'trusted.pem'), certificate.cert);
  const port = await listen(createTlsServer(certificate, (_, response) => response.end('hello')));
  return { CHECK_URL: `https://localhost:${port}/`, NODE_EXTRA_CA_CERTS: join(root, 'trusted.pem') };
};

test('without an address it checks nothing and says what to set', async () => {
  expect(await check()).toEqual({
    status: 0,
    stdout: 'Nothing is checked: set CHECK_URL to the address of your site.\n',
    stderr: '',
  });
});

test('a site that answers as expected is told with its time', async () => {
  const url = await serve((_, response) => response.end('<h1>Welcome</h1>'));
  const { status, stdout } = await check({ CHECK_URL: url, CHECK_TEXT: 'Welcome' });
  expect(status).toBe(0);
  expect(stdout).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/ answered in \d+\.\d\d s\n$/);
});

test('another status fails, and a redirection says where to', async () => {
  const broken = await serve((_, response) => response.writeHead(503).end());
  const moved = await serve((_, response) => response.writeHead(301, { location: 'https://elsewhere.example/' }).end());
  const { status, stderr } = await check({ CHECK_URL: `${broken}  ${moved}` });
  expect(status).toBe(1);
  expect(stderr).toContain(`${broken} answered with status 503, not 200\n`);
  expect(stderr).toContain(
    `${moved} answered with status 301, not 200 and sends visitors to https://elsewhere.example/`,
  );
});

test('another status can be what is expected', async () => {
  const url = await serve((_, response) => response.writeHead(401).end());
  expect(await check({ CHECK_URL: url, CHECK_STATUS: '401' })).toMatchObject({ status: 0 });
});

test('a page without the text fails', async () => {
  const url = await serve((_, response) => response.end('Error establishing a database connection'));
  const { status, stderr } = await check({ CHECK_URL: url, CHECK_TEXT: 'Welcome' });
  expect(status).toBe(1);
  expect(stderr).toContain(`${url} answered without the text "Welcome"`);
});

test.each([
  ['never begins its answer', () => {}],
  ['never ends its page', (_: unknown, response: { write(text: string): void }) => response.write('a')],
])('a site that %s fails after the time limit', async (_, answer) => {
  const url = await serve(answer as RequestListener);
  const { status, stderr } = await check({ CHECK_URL: url, CHECK_WITHIN_SECONDS: '0.3' });
  expect(status).toBe(1);
  expect(stderr).toContain(`${url} did not answer fully within 0.3 s`);
});

test('an endless page is read only so far', async () => {
  const url = await serve((_, response) => {
    const write = (): void => {
      while (response.write('x'.repeat(65_536)));
      response.once('drain', write);
    };
    write();
  });
  expect(await check({ CHECK_URL: url })).toMatchObject({ status: 0 });
});

test('nobody listening fails with the reason', async () => {
  const { status, stderr } = await check({ CHECK_URL: 'http://127.0.0.1:1/' });
  expect(status).toBe(1);
  expect(stderr).toMatch(/http:\/\/127\.0\.0\.1:1\/ did not answer: .*ECONNREFUSED/);
});

test.each(['example.org', 'ftp://example.org/', 'https://'])('the address %j fails with the reason', async (url) => {
  const { status, stderr } = await check({ CHECK_URL: url });
  expect(status).toBe(1);
  expect(stderr).toContain(`${url} did not answer: `);
});

test('a certificate that lasts is fine', async () => {
  expect(await check(await serveTls(60))).toMatchObject({ status: 0, stderr: '' });
});

test('a certificate that ends soon fails, as many days before as are set', async () => {
  const site = await serveTls(10.5);
  const { status, stderr } = await check(site);
  expect(status).toBe(1);
  expect(stderr).toMatch(/localhost:\d+\/ has a certificate that ends on \d{4}-\d\d-\d\d, in 10 days/);
  expect(await check({ ...site, CHECK_CERTIFICATE_DAYS: '5' })).toMatchObject({ status: 0 });
});

test('a certificate that has ended, or that nobody trusts, fails with the reason', async () => {
  const ended = await check(await serveTls(-1));
  expect(ended).toMatchObject({ status: 1, stderr: expect.stringContaining('expired') });
  const { CHECK_URL = '' } = await serveTls(60);
  const untrusted = await check({ CHECK_URL });
  expect(untrusted).toMatchObject({ status: 1, stderr: expect.stringContaining('self-signed') });
});

test('a number that is none is an error that names it', async () => {
  const { status, stderr } = await check({ CHECK_WITHIN_SECONDS: 'soon' });
  expect(status).toBe(1);
  expect(stderr).toContain('CHECK_WITHIN_SECONDS must be a number such as 10, but is "soon".');
});
