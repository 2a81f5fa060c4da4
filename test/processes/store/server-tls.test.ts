import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { openServerStore } from '../../../src/store/server/open.ts';
import { makeSelfSignedCertificate, type OwnServer, ownServersFor } from '../../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

describe.each(ownServersFor('TLS'))('$name', ({ name, engine, start }) => {
  let withTls: OwnServer;
  let plain: OwnServer;

  beforeAll(async () => {
    [withTls, plain] = await Promise.all([start({ isTls: true }), start()]);
  }, 120_000);

  // Where one has not started, the other one has.
  afterAll(() => Promise.all([withTls, plain].map((server) => server?.stop())));

  async function connect(url: string): Promise<string> {
    try {
      const store = await openServerStore(parseDatabaseUrl(url, 'It', '/'));
      await store.close();
      return 'connected';
    } catch (error) {
      return (error as Error).message;
    }
  }

  test('the authority that is named is believed, for the name of the host alone', async () => {
    const named = `sslrootcert=${withTls.certificate}`;
    expect(await connect(withTls.url(`?sslmode=verify-full&${named}`))).toBe('connected');
    expect(await connect(withTls.url(`?sslmode=verify-ca&${named}`))).toBe('connected');
    const byNumber = (mode: string) => withTls.url(`?sslmode=${mode}&${named}&host=127.0.0.1`);
    expect(await connect(byNumber('verify-ca'))).toBe('connected');
    expect(await connect(byNumber('verify-full'))).toMatch(
      /shows a certificate for another name \(.*\): use the name|has a host given by number, for which no certificate can be checked/,
    );
  });

  test('nobody else is believed', async () => {
    const { cert } = makeSelfSignedCertificate(new Date(Date.now() + 86_400_000));
    const other = join(makeTemporaryRoot(), 'other.pem');
    writeFileSync(other, cert);
    const refusal =
      /^The TLS certificate of the database \w+ on localhost:\d+ cannot be trusted \(.+\): name the authority/;
    expect(await connect(withTls.url(`?sslmode=verify-full&sslrootcert=${other}`))).toMatch(refusal);
    expect(await connect(withTls.url('?sslmode=verify-full'))).toMatch(refusal);
    expect(await connect(withTls.url('?sslmode=verify-ca'))).toMatch(refusal);
    expect(await connect(withTls.url(`?sslmode=require&sslrootcert=${other}`))).toMatch(refusal);
    // Asked for explicitly: encrypted, whoever it is.
    expect(await connect(withTls.url('?sslmode=require'))).toBe('connected');
    expect(await connect(withTls.url('?sslmode=require&sslrootcert=/not/there.pem'))).toMatch(
      /^sslrootcert of the database's address cannot be read \(ENOENT/,
    );
  });

  test('a server without TLS is told no password', async () => {
    const refusal =
      /offers no TLS, so the password was not sent\. Have TLS enabled there; only within a private network/;
    expect(await connect(plain.url('?sslmode=require'))).toMatch(refusal);
    expect(await connect(plain.url('?sslmode=verify-full'))).toMatch(refusal);
    expect(await connect(plain.url())).toBe('connected');
  });

  // PostgreSQL says so by itself: test/unit/store/server-failure.test.ts.
  test.runIf(engine === 'mysql')('a server that demands TLS may say no more than "access denied"', async () => {
    await withTls.ask('set global require_secure_transport = on');
    expect(await connect(withTls.url('?sslmode=disable'))).toMatch(
      name === 'MySQL'
        ? / demands TLS \(Connections using insecure transport are prohibited .*\): remove `sslmode=disable`/
        : /refuses this user or password \(Access denied .*\)\. .* A server that demands TLS says the same: remove `sslmode=disable`\./,
    );
    expect(await connect(withTls.url('?sslmode=require'))).toBe('connected');
  });
});
