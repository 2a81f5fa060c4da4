import { execFileSync, spawn } from 'node:child_process';
import { generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mysql from 'mysql2/promise';
import { until } from '../until.ts';
import { LINKS } from './links.ts';
import { findFreePort, makePostgres } from './postgres-server.ts';

/** A server for one test file: it may be told what it likes of TLS and limits. */
export interface OwnServer {
  readonly engine: 'postgres' | 'mysql';
  readonly port: number;
  /** Its certificate, which signs itself; of a server with TLS. */
  readonly certificate: string;
  /** Address as its administrator; what stands behind the `?` may be given. */
  url(options?: string, database?: string): string;
  /** As its administrator, one after the other. */
  ask(...statements: readonly string[]): Promise<readonly object[]>;
  /** It dies in the midst of what it does, throws everybody out, recovers, and is there again. */
  breakDown(): Promise<void>;
  stop(): Promise<void>;
}

export interface OwnServerOptions {
  /** With a certificate of its own, for `localhost`. */
  readonly isTls?: boolean;
  /** Machines behind links reach it, too. */
  readonly isLinked?: boolean;
  readonly flags?: readonly string[];
}

const PASSWORD = 'test-pass-word';

/** Paths of a certificate that signs itself and of its key. @param isWanted otherwise no file is made */
function makeCertificate(folder: string, isWanted: boolean): { readonly certificate: string; readonly key: string } {
  const files = { certificate: join(folder, 'server.pem'), key: join(folder, 'server.key') };
  if (isWanted) {
    const { key, cert } = makeSelfSignedCertificate(new Date(Date.now() + 86_400_000));
    writeFileSync(files.certificate, cert);
    // Whatever the umask: the server is another user.
    chmodSync(files.certificate, 0o644);
    writeFileSync(files.key, key, { mode: 0o600 });
  }
  return files;
}

export async function startOwnPostgres(options: OwnServerOptions = {}): Promise<OwnServer> {
  const { isTls = false, isLinked = false, flags = [] } = options;
  const port = await findFreePort();
  const server = await makePostgres(PASSWORD, port);
  const { folder, data, uid } = server;
  const { certificate, key } = makeCertificate(folder, isTls);
  // It reads no key of another user's, and none that others may read.
  if (isTls && uid !== null) chownSync(key, uid, -1);
  const tls = isTls ? ['ssl=on', `ssl_cert_file=${certificate}`, `ssl_key_file=${key}`] : [];
  if (isLinked) appendFileSync(join(data, 'pg_hba.conf'), `host all all ${LINKS} scram-sha-256\n`);
  await server.start(['fsync=off', `listen_addresses=${isLinked ? '0.0.0.0' : '127.0.0.1'}`, ...tls, ...flags]);
  const { default: pg } = await import('pg');
  const ask = async (...statements: readonly string[]): Promise<readonly object[]> => {
    const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', password: PASSWORD });
    // Tests break it: what is under way fails, and says so.
    client.on('error', () => {});
    await client.connect();
    try {
      let rows: readonly object[] = [];
      for (const statement of statements) rows = (await client.query(statement)).rows;
      return rows;
    } finally {
      await client.end();
    }
  };
  return {
    ...{ engine: 'postgres' as const, port, certificate, ask },
    url: (options = '', database = 'postgres') =>
      `postgres://postgres:${PASSWORD}@localhost:${port}/${database}${options}`,
    breakDown: () => killBackend(ask),
    stop: () => server.stop(),
  };
}

const VICTIM = 'who sleeps here';

export const pgbouncer = '/usr/sbin/pgbouncer';

/** A pooler before a PostgreSQL of {@link startOwnPostgres}. */
export interface OwnPooler {
  /** Address by which a runner reaches the server through it. */
  readonly url: string;
  stop(): Promise<void>;
}

/** @param settings such as `pool_mode = transaction` */
export async function startPgbouncer(server: OwnServer, settings: readonly string[]): Promise<OwnPooler> {
  const folder = mkdtempSync(join(tmpdir(), 'pooler-of-a-test-'));
  chmodSync(folder, 0o755);
  const port = await findFreePort();
  const file = join(folder, 'pgbouncer.ini');
  const place = `host=127.0.0.1 port=${server.port} user=postgres password=${PASSWORD}`;
  const alone = ['listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir =', 'auth_type = any'];
  writeFileSync(file, ['[databases]', `* = ${place}`, '[pgbouncer]', ...alone, ...settings, ''].join('\n'));
  chmodSync(file, 0o644);
  // It does not run as root.
  const owner = process.getuid?.() === 0 ? { uid: numberOf(SERVER_USER) } : {};
  const pooler = spawn(pgbouncer, [file], { ...owner, cwd: folder, stdio: 'ignore' });
  const url = `postgres://postgres:${PASSWORD}@localhost:${port}/postgres`;
  const { default: pg } = await import('pg');
  await until('the pooler answers', () => {
    const client = new pg.Client({ connectionString: url });
    return client.connect().then(
      () => client.end().then(() => true),
      () => false,
    );
  });
  return {
    url,
    stop: async () => {
      const ended = once(pooler, 'exit');
      pooler.kill('SIGQUIT');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Once one of its processes has died, PostgreSQL ends all of them, and begins anew. */
async function killBackend(ask: OwnServer['ask']): Promise<void> {
  const victim = ask(`select '${VICTIM}', pg_sleep(60)`).catch(() => {});
  const find = `select pid from pg_stat_activity where query like '%${VICTIM}%' and pid <> pg_backend_pid()`;
  let pid: number | undefined;
  await until('there is a process to kill', async () => {
    [{ pid } = { pid: undefined }] = (await ask(find)) as { pid?: number }[];
    return pid !== undefined;
  });
  process.kill(pid as number, 'SIGKILL');
  await victim;
  await until('PostgreSQL answers', () => canBeAsked(ask));
}

function canBeAsked(ask: OwnServer['ask']): Promise<boolean> {
  return ask('select 1').then(
    () => true,
    () => false,
  );
}

/** A server does not run as root; the user `mysql` comes with a package that also starts a server. */
const SERVER_USER = 'nobody';

/** What MySQL and MariaDB do each in their way. */
interface MysqlProduct {
  readonly program: string;
  /** Makes its own tables. */
  install(place: readonly string[]): void;
  /** So that it opens and writes nothing else. */
  readonly flags: readonly string[];
  readonly withoutTls: readonly string[];
}

const mariadb: MysqlProduct = {
  program: '/usr/sbin/mariadbd',
  install: (place) => {
    execFileSync('mariadb-install-db', [...place, '--auth-root-authentication-method=normal'], { stdio: 'pipe' });
  },
  flags: [],
  withoutTls: [],
};

const mysqlProduct: MysqlProduct = {
  program: process.env.TEST_MYSQLD || '',
  install: (place) => {
    execFileSync(mysqlProduct.program, [...place, ...mysqlProduct.flags, '--initialize-insecure'], { stdio: 'pipe' });
  },
  flags: ['--mysqlx=off', '--skip-log-bin', '--secure-file-priv='],
  // It makes itself a certificate otherwise.
  withoutTls: ['--tls-version='],
};

/** A server that a test may start for itself. */
export interface OwnServerKind {
  readonly name: 'PostgreSQL' | 'MariaDB' | 'MySQL';
  readonly engine: OwnServer['engine'];
  start(options?: OwnServerOptions): Promise<OwnServer>;
}

const kinds: readonly (OwnServerKind & { readonly missing: string | null })[] = [
  { name: 'PostgreSQL', engine: 'postgres', start: startOwnPostgres, missing: null },
  {
    ...{ name: 'MariaDB', engine: 'mysql' },
    start: (options) => startOwnMysql(mariadb, options),
    missing: existsSync(mariadb.program) ? null : `there is no ${mariadb.program}`,
  },
  {
    ...{ name: 'MySQL', engine: 'mysql' },
    start: (options) => startOwnMysql(mysqlProduct, options),
    missing: existsSync(mysqlProduct.program) ? null : 'TEST_MYSQLD names no program `mysqld`',
  },
];

/** Those that are here; of the others a run says that this was not tested on them. */
export function ownServersFor(what: string): readonly OwnServerKind[] {
  for (const { name, missing } of kinds)
    if (missing !== null) console.warn(`NOT TESTED HERE: ${what}, on ${name}, as ${missing}.`);
  return kinds.filter(({ missing }) => missing === null);
}

async function startOwnMysql(product: MysqlProduct, options: OwnServerOptions = {}): Promise<OwnServer> {
  const { isTls = false, isLinked = false, flags = [] } = options;
  const folder = mkdtempSync(join(tmpdir(), 'server-of-a-test-'));
  chmodSync(folder, 0o755);
  const port = await findFreePort();
  const { certificate, key } = makeCertificate(folder, isTls);
  const data = join(folder, 'data');
  const asRoot = process.getuid?.() === 0 ? [`--user=${SERVER_USER}`] : [];
  if (asRoot.length > 0) {
    chownSync(folder, numberOf(SERVER_USER), -1);
    if (isTls) chownSync(key, numberOf(SERVER_USER), -1);
  }
  // A server that starts clears its folder for temporary tables, also of tables that another one has open.
  const place = ['--no-defaults', `--datadir=${data}`, `--tmpdir=${folder}`, ...asRoot];
  product.install(place);
  const socket = join(folder, 'socket');
  const tls = isTls ? [`--ssl-cert=${certificate}`, `--ssl-key=${key}`] : product.withoutTls;
  const args = [
    ...[...place, `--port=${port}`, `--socket=${socket}`],
    ...(isLinked ? ['--bind-address=0.0.0.0', '--skip-name-resolve'] : ['--bind-address=127.0.0.1']),
    // On a busy machine a client may take longer than 10 s to say who it is.
    '--connect-timeout=60',
    // What is committed survives its death, though not that of the machine.
    ...[`--pid-file=${join(folder, 'pid')}`, '--innodb-flush-log-at-trx-commit=2'],
    ...[...product.flags, ...tls, ...flags],
  ];
  const log = join(folder, 'log');
  const start = () => spawn(product.program, [...args, `--log-error=${log}`], { stdio: 'ignore' });
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ended = once(server, 'exit');
    server.kill(signal);
    await ended;
  };
  let server = start();
  const administrate = async (...statements: readonly string[]): Promise<readonly object[]> => {
    const client = await mysql.createConnection({ socketPath: socket, user: 'root', connectTimeout: 60_000 });
    try {
      let rows: readonly object[] = [];
      for (const statement of statements) rows = (await client.query(statement))[0] as unknown as object[];
      return rows;
    } finally {
      await client.end();
    }
  };
  const isThere = () =>
    until('the server answers', () => {
      // Who has taken its port meanwhile, for one, is told by itself alone.
      if (server.exitCode !== null) throw new Error(`The server has ended: ${readFileSync(log, 'utf8').slice(-2_000)}`);
      return canBeAsked(administrate);
    });
  await isThere();
  await administrate(
    // Who comes from here without a name would be let in before those that tests make.
    "drop user if exists ''@localhost",
    `create user runner@'%' identified by '${PASSWORD}'`,
    `create user runner@localhost identified by '${PASSWORD}'`,
    `grant all on *.* to runner@'%' with grant option`,
    'grant all on *.* to runner@localhost with grant option',
    'create database runner',
  );
  return {
    ...{ engine: 'mysql' as const, port, certificate },
    url: (options = '', database = 'runner') => `mysql://runner:${PASSWORD}@localhost:${port}/${database}${options}`,
    ask: administrate,
    breakDown: async () => {
      await end('SIGKILL');
      server = start();
      await isThere();
    },
    stop: async () => {
      await end('SIGTERM');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function numberOf(user: string): number {
  return Number(execFileSync('id', ['-u', user], { encoding: 'utf8' }));
}

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/**
 * A certificate for `localhost` that ends at this time, put together by hand (RFC 5280): Node makes
 * none, `openssl` is not on every machine, and one kept in a file would run out one day.
 */
export function makeSelfSignedCertificate(end: Date): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = sequence(objectId([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]));
  const name = sequence(element(0x31, sequence(objectId([0x55, 0x04, 0x03]), element(0x0c, Buffer.from('localhost')))));
  const start = new Date(Math.min(Date.now(), end.getTime()) - 86_400_000);
  const content = sequence(
    element(0xa0, element(0x02, Buffer.from([2]))),
    element(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    name,
    sequence(time(start), time(end)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    element(0xa3, sequence(validFor('localhost'))),
  );
  const signature = sign('sha256', content, privateKey);
  const certificate = sequence(content, ecdsaWithSha256, element(0x03, Buffer.from([0]), signature));
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`,
  };
}

function validFor(host: string): Buffer {
  const names = sequence(element(0x82, Buffer.from(host)));
  return sequence(objectId([0x55, 0x1d, 0x11]), element(0x04, names));
}

function time(at: Date): Buffer {
  const digits = at.toISOString().slice(0, 19).replaceAll(/[-:T]/g, '');
  return element(0x18, Buffer.from(`${digits}Z`));
}

function objectId(bytes: readonly number[]): Buffer {
  return element(0x06, Buffer.from(bytes));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return element(0x30, ...parts);
}

/** Tag, length and content of DER. */
function element(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const size = content.length;
  const length = size < 128 ? [size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}
