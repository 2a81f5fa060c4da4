import { expect, test } from 'vitest';
import { isLogFailure, isStoreFailure } from '../../../src/store/failures.ts';
import { describeServerFailure } from '../../../src/store/server/connect/describe-failure.ts';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';

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
