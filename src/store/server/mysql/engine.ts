import mysql from 'mysql2/promise';
import { errorCode } from '../../../system/base/errors.ts';
import { lockName, mysqlDialect } from '../../shared/sql/dialect.ts';
import { unfit } from '../connect/describe-failure.ts';
import { type DatabaseTarget, readTlsOptions } from '../connect/url.ts';
import {
  type Answer,
  IDLE_TRANSACTION_MS,
  KEEP_ALIVE_MS,
  LOCK_TIMEOUT_MS,
  lastWords,
  type ServerConnection,
  type ServerEngine,
  STRANGE_SERVER,
  splitAtPlaceholders,
  toInput,
  withCode,
} from '../engine.ts';
import { migrationsOf } from '../migrate.ts';

const failures: ServerEngine['failures'] = [
  ['conflict', /^(ER_LOCK_DEADLOCK|ER_LOCK_WAIT_TIMEOUT|ER_CHECKREAD)$/],
  ['taken', /^ER_DUP_ENTRY$/],
  [
    'busy',
    /^(ER_CON_COUNT_ERROR|ER_TOO_MANY_USER_CONNECTIONS|ER_USER_LIMIT_REACHED|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/,
  ],
  [
    'lost',
    /^(PROTOCOL_CONNECTION_LOST|ER_SERVER_SHUTDOWN|ER_CONNECTION_KILLED|ER_CLIENT_INTERACTION_TIMEOUT|ECONNRESET|EPIPE|CONNECTION_LOST)$/,
  ],
];

/** MySQL from 8.0.17 on, and MariaDB from 10.6 on. */
export const mysqlEngine: ServerEngine = {
  name: 'mysql',
  dialect: mysqlDialect,
  connect,
  failures,
  migrations: migrationsOf(mysqlDialect, {}),
  // Statements that make tables commit by themselves, so each one may have been done already.
  lockMigration: async (connection, work) => {
    const name = lockName('folder-runner');
    const { rows } = await connection.query(`select get_lock(${name}, 60) as got`, []);
    if (Number((rows as [{ got: number | null }])[0].got) !== 1)
      throw new LockRefused('another runner makes the tables');
    try {
      return await work();
    } finally {
      if (!connection.isLost) await connection.query(`select release_lock(${name})`, []);
    }
  },
  make: async (connection, statements) => {
    for (const statement of statements) {
      await connection.query(statement, []).catch((error) => {
        // MySQL knows no `if not exists` of a column.
        if (errorCode(error) !== 'ER_DUP_FIELDNAME') throw error;
      });
    }
  },
};

/** As the server says it of its other locks. */
class LockRefused extends Error {
  readonly code = 'ER_LOCK_WAIT_TIMEOUT';
}

/** Longest idle time of a connection between two statements. */
const LONGEST_REST_S = 60;

/** By default a recursive query ends after 1000 steps: in MariaDB without a word, in MySQL as an error. */
const MOST_STEPS = 4_294_967_295;

/** The number that means "no limit of rows" to the server. */
const UNLIMITED = '18446744073709551615';

async function connect(target: DatabaseTarget): Promise<ServerConnection> {
  const { host, port, socket, user, password, database } = target;
  const ssl = readTlsOptions(target);
  const wish = {
    ...(socket === null ? { host, port } : { socketPath: socket }),
    ...{ user, password, database, ...(ssl !== null && { ssl }) },
    connectTimeout: target.connectTimeoutMs,
    enableKeepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
    charset: 'utf8mb4',
    supportBigNumbers: true,
    decimalNumbers: true,
  };
  const client = await mysql.createConnection(wish).catch((error) => {
    throw withCode(error, codes, STRANGE_SERVER);
  });
  const connection = new MysqlConnection(client);
  try {
    await setUp(connection, target);
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** @throws {StoreUnavailable} where the server is too old */
async function setUp(connection: ServerConnection, target: DatabaseTarget): Promise<void> {
  const [{ version }] = (await connection.query('select version() as version', [])).rows as [{ version: string }];
  const flaw = findFlaw(version);
  if (flaw !== null) throw unfit(target, flaw);
  // Texts are compared byte by byte, and spaces at their ends count.
  const collation = /mariadb/i.test(version) ? 'utf8mb4_nopad_bin' : 'utf8mb4_0900_bin';
  await connection.query(`set names utf8mb4 collate ${collation}`, []);
  // MySQL knows no limit for transactions alone.
  const idle = IDLE_TRANSACTION_MS / 1_000;
  await connection.query(
    `set session sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
       time_zone = '+00:00', innodb_lock_wait_timeout = ${LOCK_TIMEOUT_MS / 1_000},
       sql_select_limit = ${UNLIMITED}, sql_safe_updates = 0, sql_big_selects = 1
       /*M! , max_statement_time = 0, idle_transaction_timeout = ${idle}, wait_timeout = ${LONGEST_REST_S}, max_recursive_iterations = ${MOST_STEPS} */
       /*!80000 , max_execution_time = 0, wait_timeout = ${idle}, information_schema_stats_expiry = 0, cte_max_recursion_depth = ${MOST_STEPS} */`,
    [],
  );
  await connection.query('set session transaction isolation level read committed', []);
}

/** Why a server of this version is none for a log; null: it is one. */
export function findFlaw(version: string): string | null {
  // It takes the words for a lock that is passed over when it is held, and locks nothing: pingcap/tidb#69720.
  if (/tidb/i.test(version)) return `TiDB (${version}), which would give one job to two machines: use MySQL or MariaDB`;
  if (!isTooOld(version)) return null;
  const name = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL';
  return `${name} ${version}, which is too old: MySQL 8.0.17 or MariaDB 10.6 or newer is needed`;
}

/** MariaDB calls itself `5.5.5-10.6.12-MariaDB` to some. */
function isTooOld(version: string): boolean {
  const [, major = 0, minor = 0] = (/(\d+)\.(\d+)[\d.]*-mariadb/i.exec(version) ?? []).map(Number);
  if (major > 0) return major < 10 || (major === 10 && minor < 6);
  const [first = 0, second = 0, third = 0] = version.split(/[.-]/, 3).map(Number);
  // The collation of its texts is there from then on.
  return first < 8 || (first === 8 && second === 0 && third < 17);
}

const codes = [[/closed state|Connection lost/, 'CONNECTION_LOST']] as const;

class MysqlConnection implements ServerConnection {
  readonly #client: mysql.Connection;
  isLost = false;

  constructor(client: mysql.Connection) {
    this.#client = client;
    const lose = (): void => {
      this.isLost = true;
    };
    client.on('error', lose);
    client.on('end', lose);
  }

  /** The values are put in here: a server that prepares it takes no number behind `limit`. */
  async query(text: string, values: readonly unknown[]): Promise<Answer> {
    const parts = splitAtPlaceholders(text);
    const whole = parts.reduce(
      (all, part, index) => `${all}${this.#client.escape(toListed(values[index - 1]))}${part}`,
    );
    return await this.#ask(whole);
  }

  async queryAsIs(text: string, values: readonly unknown[]): Promise<Answer> {
    return await this.query(text, values);
  }

  async #ask(text: string): Promise<Answer> {
    const [result] = await this.#client.query(text).catch((error) => {
      throw withCode(error, codes);
    });
    if (Array.isArray(result)) return { rows: result as object[], changes: 0, insertId: 0 };
    const { affectedRows, insertId } = result as mysql.ResultSetHeader;
    return { rows: [], changes: affectedRows, insertId };
  }

  /** It announces nothing: whoever waits looks. */
  async listen(): Promise<boolean> {
    return false;
  }

  async announce(): Promise<void> {}

  async close(): Promise<void> {
    if (this.isLost) return this.abandon();
    this.isLost = true;
    await lastWords(this.#client.end()).finally(() => this.abandon());
  }

  abandon(): void {
    this.isLost = true;
    this.#client.destroy();
  }
}

/** A list: of none, one that holds nothing. */
function toListed(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? null : value;
  return toInput(value);
}
