import { chmodSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isLogFailure, isStoreFailure } from '../../../src/store/failures.ts';
import { describeServerFailure } from '../../../src/store/server/connect/describe-failure.ts';
import { nameOfDatabase, parseDatabaseUrl, readDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { findFlaw } from '../../../src/store/server/mysql/engine.ts';
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

const PASSWORD = 'gEheim7';
const target = parseDatabaseUrl(`postgres://me:${PASSWORD}@db.example.com/site`, 'it', '/');
const fail = (code: string, message = 'as the server says') => Object.assign(new Error(message), { code });
const tell = (code: string, message?: string) => describeServerFailure(fail(code, message), target);

test.each([
  ['ECONNREFUSED', 'away', 'cannot be reached (as the server says). Passes and workers try again by themselves.'],
  ['ETIMEDOUT', 'away', 'cannot be reached'],
  ['25P03', 'away', 'cannot be reached'],
  ['57P01', 'away', 'cannot be reached'],
  ['08006', 'away', 'cannot be reached'],
  ['PROTOCOL_CONNECTION_LOST', 'away', 'cannot be reached'],
  ['ENOTFOUND', 'away', 'Check its name in the address, and your DNS.'],
  ['ERR_COMMIT_UNKNOWN', 'away', 'the last change may be stored or not.'],
  ['53300', 'away', 'has no connection left for this user'],
  ['ER_CON_COUNT_ERROR', 'away', 'has no connection left for this user'],
  ['ER_TOO_MANY_USER_CONNECTIONS', 'away', 'has no connection left for this user'],
  ['28P01', 'refused', 'refuses this user or password'],
  ['ER_ACCESS_DENIED_ERROR', 'refused', 'refuses this user or password'],
  ['ER_HOST_NOT_PRIVILEGED', 'refused', 'refuses connections from this machine'],
  ['3D000', 'refused', 'Create it, `create database site`'],
  ['ER_BAD_DB_ERROR', 'refused', 'Create it, `create database site`'],
  ['3F000', 'refused', '`grant usage, create on schema folder_runner to me`'],
  ['42501', 'refused', 'docs/database.md has the grants for it.'],
  ['ER_TABLEACCESS_DENIED_ERROR', 'refused', 'docs/database.md has the grants for it.'],
  ['ER_DBACCESS_DENIED_ERROR', 'refused', 'is not there, or is closed to this user'],
  ['HANDSHAKE_NO_SSL_SUPPORT', 'refused', 'offers no TLS, so the password was not sent.'],
  ['NO_TLS', 'refused', 'add `sslmode=disable` to the address.'],
  ['ER_SECURE_TRANSPORT_REQUIRED', 'refused', 'demands TLS (as the server says): remove `sslmode=disable`'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'refused', 'with `sslrootcert=/path/to/ca.pem` in the address.'],
  ['CERT_HAS_EXPIRED', 'refused', 'cannot be trusted'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'refused', 'shows a certificate for another name'],
  ['25006', 'read-only', 'use the address of the primary server, not of a replica;'],
  ['ER_OPTION_PREVENTS_STATEMENT', 'read-only', 'is read-only'],
  ['53100', 'full', "the server's disk is full, or your quota of it."],
  ['ER_RECORD_FILE_FULL', 'full', 'No space left for the database site on db.example.com:5432'],
  ['40P01', 'locked', 'stays locked by another connection'],
  ['ER_LOCK_WAIT_TIMEOUT', 'locked', 'stays locked by another connection'],
  ['42P05', 'refused', 'is a connection pooler in transaction mode'],
  ['26000', 'refused', 'is a connection pooler in transaction mode'],
  ['42P01', 'changed', 'are not as the runner made them'],
  ['ER_NO_SUCH_TABLE', 'changed', 'are not as the runner made them'],
])('%s is a failure of the kind %s, told with its cure', (code, kind, sentence) => {
  const failure = tell(code);
  expect(failure).toMatchObject({ kind });
  expect(failure?.message).toContain(sentence);
  expect(failure?.message).toContain('atabase site on db.example.com:5432');
  expect(isStoreFailure(failure)).toBe(true);
  expect(isLogFailure(failure)).toBe(true);
});

test.each(['23505', '22021', '23502', 'ER_DUP_ENTRY', 'ER_DATA_TOO_LONG', 'ERR_INVALID_ARG_TYPE', ''])(
  '%s tells of what was to be stored, not of the database',
  (code) => {
    expect(tell(code)).toBeNull();
  },
);

test('a driver that is missing is named, with the command that installs it', () => {
  expect(tell('ERR_MODULE_NOT_FOUND', "Cannot find package 'pg' imported from x")).toMatchObject({
    kind: 'no-driver',
    message:
      'The database site on db.example.com:5432 needs the package pg, which is not installed: ' +
      '`npm install pg` beside folder-runner.',
  });
  expect(tell('ERR_MODULE_NOT_FOUND', "Cannot find package 'zod'")).toBeNull();
});

test('a demand for TLS is not taken for a wrong password', () => {
  const message = 'no pg_hba.conf entry for host "10.0.0.1", user "me", database "site", no encryption';
  expect(tell('28000', message)?.message).toContain('demands TLS');
  expect(tell('28000', 'role "me" is not permitted to log in')?.message).toContain('refuses this user');
});

test('what was tried at several addresses is told by the first of them', () => {
  const error = Object.assign(new AggregateError([fail('ECONNREFUSED', 'connect ECONNREFUSED ::1:5432')], ''), {
    code: 'ECONNREFUSED',
  });
  expect(describeServerFailure(error, target)?.message).toContain('(connect ECONNREFUSED ::1:5432)');
});

test('a password that a server or driver repeats is not passed on', () => {
  const failure = tell('28P01', `authentication with ${PASSWORD} failed`);
  expect(failure?.message).toContain('authentication with *** failed');
  expect(failure?.message).not.toContain(PASSWORD);
});

test.each([
  '8.0.17',
  '8.0.36',
  '8.4.0',
  '9.1.0-cloud',
  '10.6.12-MariaDB-log',
  '5.5.5-10.11.18-MariaDB-0+deb12u1',
  '11.4.2-MariaDB',
])('a log can be on %s', (version) => {
  expect(findFlaw(version)).toBeNull();
});

test.each(['5.7.44', '8.0.16', '8.0.4-rc', '10.5.9-MariaDB', '5.5.5-10.3.39-MariaDB'])('%s is too old', (version) => {
  expect(findFlaw(version)).toMatch(/too old: MySQL 8\.0\.17 or MariaDB 10\.6 or newer is needed$/);
});

test('TiDB is refused: it locks nothing where it is asked to pass over what is locked', () => {
  expect(findFlaw('8.0.11-TiDB-v8.5.6')).toMatch(/^TiDB .* would give one job to two machines/);
});
