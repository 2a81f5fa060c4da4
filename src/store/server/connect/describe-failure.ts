import { errorCode } from '../../../system/base/errors.ts';
import { capitalized } from '../../../system/base/text.ts';
import { type StoreFailureKind, StoreUnavailable } from '../../failures.ts';
import { type DatabaseTarget, nameOfDatabase } from './url.ts';

interface Failure {
  readonly kind: StoreFailureKind;
  /** SQLSTATE of PostgreSQL, names of MySQL's errors, codes of Node. */
  readonly codes: RegExp;
  /** A pattern for the message, if the code alone is ambiguous. */
  readonly message?: RegExp;
  /** Explains what happened, and what to do about it. */
  readonly tell: (place: string, reason: string, target: DatabaseTarget) => string;
}

const ASK_LATER = 'Passes and workers try again by themselves.';

/**
 * The SQLSTATE by which PostgreSQL refuses changes to a log that was moved away, for callers that had it open before.
 */
export const MOVED_SQLSTATE = 'FR001';

/** The flaw of a pooler whose connections share their sessions. */
export const SHARED_SESSIONS =
  'a connection pooler in transaction mode, which has each transaction answered by another connection of PostgreSQL’s: ' +
  'name PostgreSQL itself in the address, or a pool with `pool_mode = session`';

/** @param flaw what the server is, and why that will not do */
export function unfit(target: DatabaseTarget, flaw: string): StoreUnavailable {
  return new StoreUnavailable('refused', `The server of ${nameOfDatabase(target)} is ${flaw}.`);
}

/** The first match counts. */
const failures: readonly Failure[] = [
  {
    kind: 'no-driver',
    codes: /^(ERR_MODULE_NOT_FOUND|MODULE_NOT_FOUND)$/,
    message: /\b(pg|mysql2)\b/,
    tell: (place, _, { engine }) => {
      const driver = engine === 'postgres' ? 'pg' : 'mysql2';
      return `${place} needs the package ${driver}, which is not installed: \`npm install ${driver}\` beside folder-runner.`;
    },
  },
  {
    kind: 'refused',
    codes: /^(HANDSHAKE_NO_SSL_SUPPORT|NO_TLS)$/,
    tell: (place) =>
      `${place} offers no TLS, so the password was not sent. Have TLS enabled there; ` +
      'only within a private network that you trust, add `sslmode=disable` to the address.',
  },
  {
    kind: 'refused',
    codes: /^28000$/,
    message: /no encryption|SSL off/,
    tell: (place, reason) => `${place} demands TLS (${reason}): remove \`sslmode=disable\` from the address.`,
  },
  {
    kind: 'refused',
    codes: /^ER_SECURE_TRANSPORT_REQUIRED$/,
    tell: (place, reason) => `${place} demands TLS (${reason}): remove \`sslmode=disable\` from the address.`,
  },
  {
    kind: 'refused',
    codes: /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    tell: (place, reason) =>
      `${place} shows a certificate for another name (${reason}): use the name of the certificate in the address, or ` +
      '`sslmode=verify-ca` with `sslrootcert`.',
  },
  {
    kind: 'refused',
    codes:
      /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+|CERT_\w+|ERR_TLS_\w+|ERR_SSL_\w+|ERR_OSSL_\w+|EPROTO|HANDSHAKE_SSL_ERROR|ERROR_IN_CERT_\w+|INVALID_CA)$/,
    tell: (place, reason) =>
      `The TLS certificate of ${place} cannot be trusted (${reason}): name the authority that signed it, ` +
      'with `sslrootcert=/path/to/ca.pem` in the address.',
  },
  {
    kind: 'refused',
    codes:
      /^(28P01|28000|ER_ACCESS_DENIED_ERROR|ER_ACCESS_DENIED_NO_PASSWORD_ERROR|ER_NOT_SUPPORTED_AUTH_MODE|AUTH_SWITCH_PLUGIN_ERROR|ER_ACCOUNT_HAS_BEEN_LOCKED|ER_MUST_CHANGE_PASSWORD\w*)$/,
    tell: (place, reason, { engine, tls }) =>
      `${place} refuses this user or password (${reason}). Check both in the address; special characters of the ` +
      'password are percent-encoded there.' +
      (engine === 'mysql' && tls.mode === 'disable'
        ? ' A server that demands TLS says the same: remove `sslmode=disable`.'
        : ''),
  },
  {
    kind: 'refused',
    codes: /^(ER_HOST_NOT_PRIVILEGED|ER_HOST_IS_BLOCKED)$/,
    tell: (place, reason) =>
      `${place} refuses connections from this machine (${reason}). Allow this machine's address there ` +
      '(on shared hosts: "remote MySQL"), then run `npx folder-runner doctor`.',
  },
  {
    kind: 'refused',
    codes: /^(3D000|ER_BAD_DB_ERROR)$/,
    tell: (place, reason, { database }) =>
      `${place} is not there (${reason}). Create it, \`create database ${database}\`, or correct its name in the address.`,
  },
  {
    kind: 'refused',
    codes: /^3F000$/,
    tell: (place, reason, { schema, user }) =>
      `The schema ${schema} of ${place} cannot be used (${reason}). ` +
      `Create it, or allow it: \`grant usage, create on schema ${schema} to ${user}\`; docs/database.md has all grants.`,
  },
  {
    kind: 'refused',
    codes: /^ER_DBACCESS_DENIED_ERROR$/,
    tell: (place, reason) =>
      `${place} is not there, or is closed to this user (${reason}). Check its name in the address; ` +
      'docs/database.md has the grants for it.',
  },
  {
    kind: 'refused',
    codes: /^(42501|ER_\w*ACCESS_DENIED\w*)$/,
    tell: (place, reason) =>
      `${place} denies this user a right that the runner needs (${reason}). docs/database.md has the grants for it.`,
  },
  {
    kind: 'away',
    codes: /^(53300|ER_CON_COUNT_ERROR|ER_TOO_MANY_USER_CONNECTIONS|ER_USER_LIMIT_REACHED)$/,
    tell: (place, reason) =>
      `${place} has no connection left for this user (${reason}). ${ASK_LATER} If that lasts, ` +
      'raise the limit, or lower the number of workers: each takes one connection.',
  },
  {
    kind: 'full',
    codes: /^(53100|ER_RECORD_FILE_FULL|ER_DISK_FULL\w*)$/,
    tell: (place, reason) =>
      `No space left for ${place} (${reason}): the server's disk is full, or your quota of it. Make room there.`,
  },
  {
    kind: 'read-only',
    codes: /^(25006|ER_OPTION_PREVENTS_STATEMENT|ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION|ER_READ_ONLY_MODE)$/,
    tell: (place, reason, { engine }) =>
      `${place} is read-only (${reason}): use the address of the primary server, not of a replica; if it is the primary, have its setting ` +
      `${engine === 'postgres' ? 'default_transaction_read_only' : 'read_only'} switched off.`,
  },
  {
    kind: 'refused',
    codes: /^(42P05|26000)$/,
    tell: (place, reason) => `The server of ${place} is ${SHARED_SESSIONS} (${reason}).`,
  },
  {
    kind: 'changed',
    codes: /^(42P01|42703|42883|42704|42601|ER_NO_SUCH_TABLE|ER_BAD_FIELD_ERROR|ER_PARSE_ERROR)$/,
    tell: (place, reason) =>
      `The tables in ${place} are not as the runner made them (${reason}): perhaps another program has changed them. ` +
      '`npx folder-runner doctor` says more; a backup brings them back.',
  },
  {
    kind: 'locked',
    codes: /^(40001|40P01|55P03|ER_LOCK_DEADLOCK|ER_LOCK_WAIT_TIMEOUT|ER_CHECKREAD)$/,
    tell: (place, reason) =>
      `${place} stays locked by another connection (${reason}). ${ASK_LATER} If that lasts, end the long transaction there.`,
  },
  { kind: 'foreign', codes: new RegExp(`^${MOVED_SQLSTATE}$`), tell: tellMoved },
  {
    kind: 'refused',
    codes: /^STRANGE_SERVER$/,
    tell: (place, reason, { engine }) => {
      const kind = engine === 'postgres' ? 'PostgreSQL' : 'MySQL or MariaDB';
      return (
        `The server of ${place} is none of ${kind} (${reason}). Check the port in the address, and its beginning: ` +
        '`postgres://` or `mysql://`.'
      );
    },
  },
  {
    kind: 'away',
    codes: /^(57014|25P04|ER_QUERY_INTERRUPTED|ER_QUERY_TIMEOUT)$/,
    tell: (place, reason) =>
      `${place} has ended a statement before it was done (${reason}). ${ASK_LATER} If that lasts, ask who looks after ` +
      'the server what ends it: an administrator, or a limit for all statements.',
  },
  {
    kind: 'away',
    codes: /^(ENOTFOUND|EAI_\w+)$/,
    tell: (place, reason) =>
      `The host of ${place} is not known (${reason}). Check its name in the address, and your DNS.`,
  },
  {
    kind: 'away',
    codes: /^ERR_COMMIT_UNKNOWN$/,
    tell: (place) => `The connection to ${place} was lost during a commit: the last change may be stored or not.`,
  },
  {
    kind: 'away',
    codes:
      /^(25P03|57P0\d|53200|53400|08\w{3}|ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOENT|EACCES|PROTOCOL_\w+|ER_SERVER_SHUTDOWN|ER_CONNECTION_KILLED|ER_CLIENT_INTERACTION_TIMEOUT|CONNECTION_LOST|ER_OUT_OF_RESOURCES|ER_OUTOFMEMORY)$/,
    tell: (place, reason) =>
      `${place} cannot be reached (${reason}). ${ASK_LATER} ` +
      'Check that the server runs, and that host and port in the address are right.',
  },
];

/** The message for a log that was moved away. */
export function tellMoved(place: string): string {
  return `The log was moved away from ${place}: name its new place in RUNNER_DATABASE_URL; \`npx folder-runner migrate --help\` has the way back.`;
}

/**
 * Explains to people why a database cannot be used, never with its password. Null: the database is not to blame, but
 * the values that it was asked to store.
 */
export function describeServerFailure(error: unknown, target: DatabaseTarget): StoreUnavailable | null {
  const code = errorCode(error);
  const text = messageOf(error);
  const found = failures.find(({ codes, message }) => codes.test(code) && (message?.test(text) ?? true));
  if (found === undefined) return null;
  const sentence = found.tell(nameOfDatabase(target), withoutSecrets(text, target), target);
  return new StoreUnavailable(found.kind, capitalized(sentence), { cause: error });
}

/** An error for several addresses of one host has messages only in its parts. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return messageOf(error.errors[0]);
  const text = error instanceof Error ? error.message : String(error);
  return text.split('\n', 1)[0]?.replace(/[.\s]+$/, '') ?? '';
}

function withoutSecrets(text: string, { password }: DatabaseTarget): string {
  return password.length < 3 ? text : text.replaceAll(password, '***');
}
