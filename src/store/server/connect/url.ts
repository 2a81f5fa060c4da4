import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { homedir } from 'node:os';
import { isAbsolute, resolve } from 'node:path';
import { UsageError } from '../../../system/base/errors.ts';
import { nearestName } from '../../../system/base/suggest.ts';
import { databaseVariables } from '../../shared/which-log.ts';

/** The database server that a fleet of machines shares. Holds a secret: never to be printed whole. */
export interface DatabaseTarget {
  readonly engine: 'postgres' | 'mysql';
  readonly host: string;
  readonly port: number;
  /** Instead of host and port: of PostgreSQL the folder of its socket, of MySQL the socket itself. */
  readonly socket: string | null;
  readonly user: string;
  readonly password: string;
  /** MySQL and MariaDB: it is the runner's alone. */
  readonly database: string;
  /** Only for PostgreSQL: the schema that contains the tables, which belongs to the runner alone. */
  readonly schema: string;
  readonly tls: TlsWish;
  readonly connectTimeoutMs: number;
}

/** Named as in libpq. Paths are absolute; null: not given. */
export interface TlsWish {
  readonly mode: (typeof tlsModes)[number];
  readonly rootCertificate: string | null;
  readonly certificate: string | null;
  readonly key: string | null;
}

const tlsModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const;

const engines: ReadonlyMap<string, DatabaseTarget['engine']> = new Map([
  ['postgres', 'postgres'],
  ['postgresql', 'postgres'],
  ['mysql', 'mysql'],
  ['mariadb', 'mysql'],
]);

const ports = { postgres: 5432, mysql: 3306 } as const;

const options = {
  postgres: ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'host', 'socket', 'schema', 'connect_timeout'],
  mysql: ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'host', 'socket', 'connect_timeout'],
} as const;

const EXPECTED = 'postgres://user:password@host/database or mysql://user:password@host/database';
const ENCODED = 'percent-encode special characters of the password: @ is %40, : is %3A, / is %2F, # is %23, ? is %3F';
const CONNECT_TIMEOUT_MS = 5_000;
const DEFAULT_SCHEMA = 'folder_runner';

/**
 * Never plain `DATABASE_URL`: that is often the site's own. The second one names a file: what stands in a crontab is
 * copied around, and shown.
 */
export const [DATABASE_VARIABLE, DATABASE_FILE_VARIABLE] = databaseVariables;

/**
 * The server that the environment names; null: the log is a file in the state folder.
 *
 * @param root from which relative paths are found
 * @throws {UsageError} when the address is none; its message never holds the password
 */
export function readDatabaseUrl(root: string, env: NodeJS.ProcessEnv = process.env): DatabaseTarget | null {
  const text = env[DATABASE_VARIABLE]?.trim() ?? '';
  const file = env[DATABASE_FILE_VARIABLE]?.trim() ?? '';
  if (text !== '' && file !== '') {
    throw new UsageError(`${DATABASE_VARIABLE} and ${DATABASE_FILE_VARIABLE} are both set: unset one of them.`);
  }
  if (text !== '') return parseDatabaseUrl(text, DATABASE_VARIABLE, root);
  // Scripts get the same variable, wherever they are.
  if (file !== '' && !isAbsolute(file)) throw new UsageError(`${DATABASE_FILE_VARIABLE} must be an absolute path.`);
  return file === '' ? null : readDatabaseFile(file, DATABASE_FILE_VARIABLE, root);
}

/** Reads the address that stands in a file; `called` has named it. */
export function readDatabaseFile(file: string, called: string, root: string): DatabaseTarget {
  return parseDatabaseUrl(readAddressFile(absolute(file, root), called), `The address in ${file}`, root);
}

const OTHERS_MAY = 0o077;

/** It holds a password: who else has an account on the host must not read it. */
function readAddressFile(path: string, called: string): string {
  const refuse = (what: string) => new UsageError(`${called} names ${path}, which ${what}.`);
  let text: string;
  try {
    const { mode, uid } = statSync(path);
    if ((mode & OTHERS_MAY) !== 0) throw refuse(`others may read: \`chmod 600 ${path}\` closes it`);
    if (![0, process.getuid?.()].includes(uid)) throw refuse('belongs to another user: make a file of your own');
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw refuse(`cannot be read (${(error as Error).message})`);
  }
  if (text === '' || text.includes('\n')) throw refuse('must hold one line: the address of the database');
  return text;
}

function absolute(path: string, root: string): string {
  return resolve(root, path.replace(/^~(?=\/)/, homedir()));
}

/**
 * Reads the address of a database.
 *
 * @param called where it stands, for people: `RUNNER_DATABASE_URL`
 * @param root from which relative paths in it are found
 * @throws {UsageError} when it is none; its message never holds what may be a password
 */
export function parseDatabaseUrl(text: string, called: string, root: string): DatabaseTarget {
  const refuse: Refuse = (what) => {
    throw new UsageError(`${called} ${what}${what.endsWith('?') ? '' : '.'}`);
  };
  const [, scheme] = /^([a-z][a-z0-9+.-]{0,30}):\/\//i.exec(text) ?? [];
  if (scheme === undefined) return refuse(`is not the address of a database: expected ${EXPECTED}`);
  const engine = engines.get(scheme.toLowerCase());
  if (engine === undefined)
    return refuse(`begins with "${scheme}://", which is not a supported database: expected ${EXPECTED}`);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) return refuse(describeUnparsed(text));
  if (url.hash !== '' || /[@/]/.test(url.pathname.slice(1))) return refuse(`cannot be read: ${ENCODED}`);
  const decode = (part: string): string => decodePart(part, refuse);
  const database = decode(url.pathname.slice(1));
  if (database === '') return refuse(`has no database name: expected ${EXPECTED}`);
  if (url.username === '') return refuse(`has no user name: expected ${EXPECTED}`);
  const given = readOptions(url, engine, refuse);
  const place = placeOf(url, given, { engine, refuse });
  return {
    ...{ engine, ...place, database },
    user: decode(url.username),
    password: decode(url.password),
    schema: readSchema(given.get('schema'), refuse),
    tls: readTls(given, { ...place, engine, root, refuse }),
    connectTimeoutMs: readTimeout(given.get('connect_timeout'), refuse),
  };
}

type Refuse = (what: string) => never;

function describeUnparsed(text: string): string {
  const [authority = ''] = text.slice(text.indexOf('://') + 3).split(/[/?#]/);
  const place = authority.slice(authority.lastIndexOf('@') + 1);
  const isPortWrong = authority.includes('@') && /^[^:]+:|\]:/.test(place);
  if (isPortWrong) return 'has no valid port: expected a number from 1 to 65535 behind the host';
  return `cannot be read: expected ${EXPECTED}; ${ENCODED}`;
}

function decodePart(part: string, refuse: Refuse): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return refuse('has a % that does not begin a percent-encoded character: write %25 for a % sign');
  }
}

function readOptions(url: URL, engine: DatabaseTarget['engine'], refuse: Refuse): Map<string, string> {
  const known: readonly string[] = options[engine];
  const given = new Map<string, string>();
  for (const [name, value] of url.searchParams) {
    // A text that is no word may be a part of the password, which contains a `?`.
    if (!/^[\w-]{1,40}$/.test(name)) refuse(`has a part after the ? that is not an option=value pair: ${ENCODED}`);
    if (name === 'schema' && engine === 'mysql') {
      refuse("has the option schema, which MySQL does not have: name a database that is the runner's alone");
    }
    if (!known.includes(name)) refuse(describeUnknown(name, known));
    if (given.has(name)) refuse(`has the option ${name} twice`);
    if (value === '') refuse(`has the option ${name} without a value`);
    given.set(name, value);
  }
  return given;
}

function describeUnknown(name: string, known: readonly string[]): string {
  const meant = nearestName(name.replaceAll('-', ''), known);
  const hint = meant === null ? `the options are ${known.join(', ')}` : `did you mean ${meant}?`;
  return `has the unknown option "${name}": ${hint}`;
}

interface Reading {
  readonly engine: DatabaseTarget['engine'];
  readonly refuse: Refuse;
}

type Place = Pick<DatabaseTarget, 'host' | 'port' | 'socket'>;

/** `host=/folder` names a socket, as libpq has it. */
function placeOf(url: URL, given: ReadonlyMap<string, string>, { engine, refuse }: Reading): Place {
  const named = given.get('host');
  const socket = given.get('socket') ?? (named?.startsWith('/') ? named : null);
  if (socket !== null && !socket.startsWith('/')) refuse('has a socket that is not an absolute path');
  const host = named ?? decodePart(url.hostname, refuse).replace(/^\[|\]$/g, '');
  return {
    host: socket === null && host !== '' ? host : 'localhost',
    port: url.port === '' ? ports[engine] : Number(url.port),
    socket,
  };
}

/** It is written into statements as a name. */
function readSchema(name: string | undefined, refuse: Refuse): string {
  if (name === undefined) return DEFAULT_SCHEMA;
  if (/^(?!pg_)[a-z_][a-z0-9_]{0,62}$/.test(name)) return name;
  return refuse('has a schema that cannot be used: expected up to 63 lower-case letters, digits and _, not pg_…');
}

interface TlsReading extends Reading, Place {
  readonly root: string;
}

/** Nothing leaves the machine by a socket or its own addresses. All other ways are believed to nobody. */
function readTls(given: ReadonlyMap<string, string>, { root, refuse, ...place }: TlsReading): TlsWish {
  const isLocal = place.socket !== null || /^(localhost|127\.[\d.]+|::1)$/.test(place.host);
  const word = given.get('sslmode') ?? (isLocal ? 'disable' : 'verify-full');
  const mode = tlsModes.find((each) => each === word);
  if (mode === undefined) return refuse(`has an unknown sslmode: expected ${tlsModes.join(', ')}`);
  const path = (name: string): string | null => {
    const value = given.get(name);
    return value === undefined ? null : absolute(value, root);
  };
  const files = { rootCertificate: path('sslrootcert'), certificate: path('sslcert'), key: path('sslkey') };
  if ((files.certificate === null) !== (files.key === null)) refuse('needs sslcert and sslkey together');
  if (mode === 'verify-full' && place.engine === 'mysql' && isIP(place.host) > 0) {
    refuse(
      'has a host given by number, for which no certificate can be checked: write its name, or choose ' +
        'sslmode=verify-ca with sslrootcert; sslmode=disable only within a private network',
    );
  }
  // As libpq has it: whoever names an authority wants it to count.
  return { mode: mode === 'require' && files.rootCertificate !== null ? 'verify-ca' : mode, ...files };
}

const LONGEST_TIMEOUT_S = 300;

function readTimeout(text: string | undefined, refuse: Refuse): number {
  if (text === undefined) return CONNECT_TIMEOUT_MS;
  const seconds = Number(text);
  if (/^\d+$/.test(text) && seconds >= 1 && seconds <= LONGEST_TIMEOUT_S) return seconds * 1_000;
  return refuse(`has a wrong connect_timeout: expected whole seconds from 1 to ${LONGEST_TIMEOUT_S}`);
}

/** For people: what it is, without user and password. */
export function nameOfDatabase({ engine, host, port, socket, database, schema }: DatabaseTarget): string {
  const name = engine === 'postgres' && schema !== DEFAULT_SCHEMA ? `${database} (schema ${schema})` : database;
  const place = socket ?? `${host.includes(':') ? `[${host}]` : host}:${port}`;
  return `the database ${name} on ${place}`;
}

interface TlsOptions {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly rejectUnauthorized: boolean;
  /** Whether the certificate must be one for the host's name. */
  readonly verifyIdentity: boolean;
}

/** The TLS options for both drivers; null: no TLS. */
export function readTlsOptions({ tls, socket }: DatabaseTarget): TlsOptions | null {
  if (tls.mode === 'disable' || socket !== null) return null;
  const ca = readCertificate('sslrootcert', tls.rootCertificate);
  const cert = readCertificate('sslcert', tls.certificate);
  const key = readCertificate('sslkey', tls.key);
  return {
    ...(ca !== null && { ca }),
    ...(cert !== null && key !== null && { cert, key }),
    rejectUnauthorized: tls.mode !== 'require',
    verifyIdentity: tls.mode === 'verify-full',
  };
}

function readCertificate(option: string, path: string | null): string | null {
  if (path === null) return null;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(
      `${option} of the database's address cannot be read (${(error as Error).message}); ` +
        'name a file that you may read.',
    );
  }
}
