import { chmodSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { nameOfDatabase, parseDatabaseUrl, readDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const parse = (text: string) => parseDatabaseUrl(text, 'RUNNER_DATABASE_URL', '/home/me/site');

test('an address names engine, server, user and database', () => {
  expect(parse('postgres://me:p%40ss%2F@db.example.com/site')).toEqual({
    engine: 'postgres',
    host: 'db.example.com',
    port: 5432,
    socket: null,
    user: 'me',
    password: 'p@ss/',
    database: 'site',
    schema: 'folder_runner',
    tls: { mode: 'verify-full', rootCertificate: null, certificate: null, key: null },
    connectTimeoutMs: 5_000,
  });
  expect(parse('mariadb://me@db.example.com:3307/site')).toMatchObject({ engine: 'mysql', port: 3307, password: '' });
  expect(parse('postgresql://me:x@[::1]/site')).toMatchObject({ engine: 'postgres', host: '::1' });
});

test.each([
  ['postgres://me:x@localhost/site', 'disable'],
  ['mysql://me:x@127.0.0.1/site', 'disable'],
  ['postgres://me:x@[::1]/site', 'disable'],
  ['postgres://me:x@ignored/site?host=/run/postgresql', 'disable'],
  ['mysql://me:x@localhost/site?socket=/run/mysqld/mysqld.sock', 'disable'],
  ['mysql://me:x@db.example.com/site', 'verify-full'],
  ['postgres://me:x@10.0.0.5/site', 'verify-full'],
  ['postgres://me:x@db.example.com/site?sslmode=disable', 'disable'],
  ['postgres://me:x@db.example.com/site?sslmode=require', 'require'],
  // As libpq has it: who names an authority wants it to count.
  ['postgres://me:x@db.example.com/site?sslmode=require&sslrootcert=ca.pem', 'verify-ca'],
  ['postgres://me:x@localhost/site?sslmode=verify-full', 'verify-full'],
])('%s asks for TLS: %s', (text, mode) => {
  expect(parse(text).tls.mode).toBe(mode);
});

test('its files are found from the root, or from home', () => {
  const { tls } = parse('postgres://me:x@db/site?sslrootcert=ca.pem&sslcert=~/me.pem&sslkey=/etc/me.key');
  expect(tls).toMatchObject({
    rootCertificate: '/home/me/site/ca.pem',
    certificate: join(homedir(), 'me.pem'),
    key: '/etc/me.key',
  });
});

test('a socket is a folder of PostgreSQL, and a file of MySQL', () => {
  expect(parse('postgres://me@x/site?host=/run/postgresql').socket).toBe('/run/postgresql');
  expect(parse('mysql://me@x/site?socket=/run/mysqld.sock').socket).toBe('/run/mysqld.sock');
  expect(() => parse('mysql://me@x/site?socket=mysqld.sock')).toThrow('has a socket that is not an absolute path.');
});

const SECRET = 'gEheim7';

test.each([
  [SECRET, 'is not the address of a database: expected postgres://user:password@host/database or mysql://user:'],
  [
    `mongodb://me:${SECRET}@db/site`,
    'begins with "mongodb://", which is not a supported database: expected postgres://',
  ],
  [`postgres://me:${SECRET}@db`, 'has no database name: expected'],
  [`postgres://me:${SECRET}@db/`, 'has no database name: expected'],
  [`mysql://db/site`, 'has no user name: expected'],
  [`postgres://me:${SECRET}@db:99999/site`, 'has no valid port: expected a number from 1 to 65535 behind the host.'],
  [`mysql://me:${SECRET}@db:abc/site`, 'has no valid port: expected a number from 1 to 65535 behind the host.'],
  [
    `postgres://me:x@${SECRET}/y@db/site`,
    'cannot be read: percent-encode special characters of the password: @ is %40',
  ],
  [`postgres://me:x#${SECRET}@db/site`, 'cannot be read: expected'],
  [`postgres://me:x?${SECRET}@db/site`, 'cannot be read: expected'],
  [
    `postgres://me:50%${SECRET}@db/site`,
    'has a % that does not begin a percent-encoded character: write %25 for a % sign',
  ],
  [`postgres://me:${SECRET}@db/site?ssl-mode=require`, 'has the unknown option "ssl-mode": did you mean sslmode?'],
  [`postgres://me:${SECRET}@db/site?pool=5`, 'has the unknown option "pool": the options are sslmode, sslrootcert,'],
  [`postgres://me:${SECRET}@db/site?schema=a&schema=b`, 'has the option schema twice.'],
  [`postgres://me:${SECRET}@db/site?schema=`, 'has the option schema without a value.'],
  [
    `postgres://me:${SECRET}@db/site?schema=Jobs;drop`,
    'has a schema that cannot be used: expected up to 63 lower-case',
  ],
  [`mysql://me:${SECRET}@db/site?schema=jobs`, 'has the option schema, which MySQL does not have: name a database'],
  [
    `mysql://me:${SECRET}@db/site?sslmode=prefer`,
    'has an unknown sslmode: expected disable, require, verify-ca, verify-full.',
  ],
  [
    `mysql://me:${SECRET}@10.0.0.5/site`,
    'has a host given by number, for which no certificate can be checked: write its name',
  ],
  [`mysql://me:${SECRET}@db/site?sslcert=a.pem`, 'needs sslcert and sslkey together.'],
  [`mysql://me:${SECRET}@db/site?connect_timeout=0`, 'has a wrong connect_timeout: expected whole seconds from 1'],
])('%s is refused in one sentence without the password', (text, sentence) => {
  const refusal = refusalOf(text);
  expect(refusal.message).toContain(`RUNNER_DATABASE_URL ${sentence}`);
  expect(refusal).toBeInstanceOf(UsageError);
  expect(`${refusal.stack} ${refusal.message}`).not.toContain(SECRET);
});

test('a database is named without user and password', () => {
  expect(nameOfDatabase(parse(`postgres://me:${SECRET}@db.example.com/site`))).toBe(
    'the database site on db.example.com:5432',
  );
  expect(nameOfDatabase(parse(`postgres://me:${SECRET}@[::1]/site?schema=jobs`))).toBe(
    'the database site (schema jobs) on [::1]:5432',
  );
  expect(nameOfDatabase(parse(`mysql://me:${SECRET}@x/site?socket=/run/my.sock`))).toBe(
    'the database site on /run/my.sock',
  );
});

test('the environment names the server, or a file of one line that only its owner can read', () => {
  const root = makeTemporaryRoot();
  const file = join(root, 'database-url');
  const env = { RUNNER_DATABASE_URL_FILE: file };
  writeFileSync(file, `mysql://me:${SECRET}@localhost/site\n`, { mode: 0o600 });
  expect(readDatabaseUrl(root, {})).toBeNull();
  expect(readDatabaseUrl(root, { RUNNER_DATABASE_URL: '  ' })).toBeNull();
  expect(readDatabaseUrl(root, env)).toMatchObject({ engine: 'mysql', database: 'site', password: SECRET });
  expect(() => readDatabaseUrl(root, { ...env, RUNNER_DATABASE_URL: 'x' })).toThrow('are both set: unset one of them.');
  chmodSync(file, 0o640);
  expect(() => readDatabaseUrl(root, env)).toThrow(
    `RUNNER_DATABASE_URL_FILE names ${file}, which others may read: \`chmod 600 ${file}\` closes it.`,
  );
  writeFileSync(file, `mysql://me:${SECRET}@localhost/site\nanother line\n`);
  chmodSync(file, 0o600);
  expect(() => readDatabaseUrl(root, env)).toThrow('must hold one line: the address of the database.');
  const missing = { RUNNER_DATABASE_URL_FILE: join(root, 'not-there') };
  const relative = { RUNNER_DATABASE_URL_FILE: 'database-url' };
  expect(() => readDatabaseUrl(root, relative)).toThrow('RUNNER_DATABASE_URL_FILE must be an absolute path.');
  expect(() => readDatabaseUrl(root, missing)).toThrow(/^RUNNER_DATABASE_URL_FILE names .*, which cannot be read/);
});

function refusalOf(text: string): Error {
  try {
    parse(text);
  } catch (error) {
    return error as Error;
  }
  throw new Error('it was taken');
}
