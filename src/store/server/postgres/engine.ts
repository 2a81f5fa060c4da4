import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { postgresDialect } from '../../shared/sql/dialect.ts';
import { SHARED_SESSIONS, unfit } from '../connect/describe-failure.ts';
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

/** By their SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html. */
const failures: ServerEngine['failures'] = [
  ['conflict', /^(40001|40P01|55P03)$/],
  ['taken', /^23505$/],
  ['busy', /^(53300|57P03|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/],
  ['lost', /^(25P03|57P01|57P02|57P05|08\w{3}|ECONNRESET|EPIPE|CONNECTION_LOST)$/],
];

/** A check of the column would read it again with each change of whatever other column. */
const types: readonly string[] = [
  `do $$ begin create domain json_text as text collate "C" check (cast(value as json) is not null);
    exception when duplicate_object then null; end $$`,
];

/** Runs go with their job, whoever deletes it, from whatever schema. */
const triggerTexts: readonly string[] = [
  `create or replace function delete_runs() returns trigger language plpgsql set search_path from current as $$
    begin delete from runs where job_id in (select id from gone); return null; end $$`,
  `create or replace trigger delete_runs after delete on jobs referencing old table as gone
    for each statement execute function delete_runs()`,
];

export const postgresEngine: ServerEngine = {
  name: 'postgres',
  dialect: postgresDialect,
  connect,
  failures,
  migrations: migrationsOf(postgresDialect, { types, triggers: triggerTexts }),
  lockMigration: async (connection, work) => {
    await connection.query('begin', []);
    try {
      // Names this schema, because the lock is one of the whole database.
      await connection.query('select pg_advisory_xact_lock(hashtext(current_schema()))', []);
      const result = await work();
      await connection.query('commit', []);
      return result;
    } catch (error) {
      if (!connection.isLost) await connection.query('rollback', []);
      throw error;
    }
  },
  // Without values it takes them all at once: half the time that they would take one by one.
  make: async (connection, statements) => {
    await connection.queryAsIs(statements.join(';\n'), []);
  },
};

const OLDEST_VERSION = 140_000;

async function connect(target: DatabaseTarget): Promise<ServerConnection> {
  const client = createClient(target);
  const connection = new PostgresConnection(client);
  await client.connect().catch((error) => {
    throw withCode(error, codes, STRANGE_SERVER);
  });
  try {
    await setUp(connection, client, target);
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

function createClient(target: DatabaseTarget): pg.Client {
  const { host, port, socket, user, password, database } = target;
  return new pg.Client({
    ...{ host: socket ?? host, port, user, password, database, ssl: sslOf(target) },
    connectionTimeoutMillis: target.connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: 'folder-runner',
    // Statements made at once are sent at once, and answered in order.
    pipeline: true,
    types: { getTypeParser },
  });
}

/** Addresses of poolers that were found to give each connection a session of its own. */
const keepingSessions = new Set<string>();

/**
 * @throws {StoreUnavailable} where the server is too old, shares its sessions, or the database cannot hold all texts
 */
async function setUp(connection: ServerConnection, client: pg.Client, target: DatabaseTarget): Promise<void> {
  const told = (client as { readonly processID?: number | null }).processID ?? 0;
  const backend = await setSession(connection, target, told);
  if (backend === told) return;
  // Somebody stands in between, who tells numbers of their own.
  const { host, port, socket, user, database } = target;
  const address = JSON.stringify([socket ?? host, port, user, database]);
  if (!keepingSessions.has(address) && (await sharesSessions(client, () => openAnother(target)))) {
    throw unfit(target, SHARED_SESSIONS);
  }
  keepingSessions.add(address);
  await setSession(connection, target, backend);
}

async function openAnother(target: DatabaseTarget): Promise<pg.Client> {
  const client = createClient(target);
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** In `SQL_ASCII` the server keeps bytes as they come. */
const ENCODINGS = ['UTF8', 'SQL_ASCII'];

/** @param schema the only one that statements look into */
const settingsOf = (schema: string) => ({
  search_path: `"${schema}"`,
  timezone: 'UTC',
  default_transaction_isolation: 'read committed',
  // The caller gives up by the clock of this machine.
  statement_timeout: '0',
  transaction_timeout: '0',
  lock_timeout: String(LOCK_TIMEOUT_MS),
  idle_in_transaction_session_timeout: String(IDLE_TRANSACTION_MS),
  tcp_keepalives_idle: String(KEEP_ALIVE_MS / 1_000),
  tcp_keepalives_interval: '1',
  tcp_keepalives_count: '10',
});

/**
 * Has the session as the runner needs it, unless it is not the expected one: then nothing of it stays.
 *
 * @param expected process of the server
 * @returns the process that has answered
 */
async function setSession(connection: ServerConnection, target: DatabaseTarget, expected: number): Promise<number> {
  const settings = Object.entries(settingsOf(target.schema));
  // Not each version has all of them.
  const sets = settings.map((_, index) => {
    const [name, value] = [`$${2 * index + 2}`, `$${2 * index + 3}`];
    return `case when current_setting(${name}, true) is not null then set_config(${name}, ${value}, pg_backend_pid() <> $1::int) end`;
  });
  const { rows } = await connection.queryAsIs(
    `select ${sets.join(', ')}, pg_backend_pid() as backend, current_setting('server_version_num') as number,
       current_setting('server_version') as version, current_setting('server_encoding') as encoding`,
    [expected, ...settings.flat()],
  );
  const [{ backend, number, version, encoding }] = rows as [ServerFacts];
  if (Number(number) < OLDEST_VERSION) {
    throw unfit(target, `PostgreSQL ${version}, which is too old: PostgreSQL 14 or newer is needed`);
  }
  if (!ENCODINGS.includes(encoding)) throw unfit(target, describeEncoding(version, encoding));
  return backend;
}

interface ServerFacts {
  readonly backend: number;
  readonly number: string;
  readonly version: string;
  readonly encoding: string;
}

function describeEncoding(version: string, encoding: string): string {
  return (
    `PostgreSQL ${version}, but this database has the encoding ${encoding}, which cannot hold every character: create ` +
    "one that can, `create database another_name encoding 'UTF8' locale 'C' template template0`, and name it in the address"
  );
}

function sslOf(target: DatabaseTarget): pg.ClientConfig['ssl'] {
  const options = readTlsOptions(target);
  if (options === null) return false;
  const { verifyIdentity, ...ssl } = options;
  return { ...ssl, ...(!verifyIdentity && { checkServerIdentity: () => undefined }) };
}

const codes = [
  [/^SASL: /, '28P01'],
  [/does not support SSL/, 'NO_TLS'],
  [/timeout expired|timeout exceeded/, 'ETIMEDOUT'],
  [/Connection terminated|not queryable|Client has encountered/, 'CONNECTION_LOST'],
] as const;

/** Whole numbers of 8 bytes, sums and booleans as numbers, as SQLite gives them. */
const NUMBERS = new Set([20, 21, 23, 700, 701, 1700]);
const BOOLEAN = 16;

const getTypeParser = ((oid: number, format?: 'text' | 'binary') => {
  if (NUMBERS.has(oid)) return Number;
  if (oid === BOOLEAN) return (text: string) => (text === 't' ? 1 : 0);
  return pg.types.getTypeParser(oid, format as 'text');
}) as typeof pg.types.getTypeParser;

const CHANNEL = 'folder_runner';
class PostgresConnection implements ServerConnection {
  readonly #client: pg.Client;
  readonly #texts = new Map<string, { readonly name: string; readonly text: string }>();
  #channel: Promise<string> | null = null;
  #onNews: (() => void) | null = null;
  #isGathering = false;
  #isBegun = false;
  #plans: 'once' | 'each' = 'each';
  isLost = false;

  constructor(client: pg.Client) {
    this.#client = client;
    const lose = (): void => {
      this.isLost = true;
      this.#onNews?.();
    };
    client.on('error', lose);
    client.on('end', lose);
  }

  async query(text: string, values: readonly unknown[], plan?: 'once'): Promise<Answer> {
    if (text === 'begin') return await this.#begin();
    if (!this.#isBegun) this.#setPlans(plan ?? 'each');
    this.#isBegun &&= text !== 'commit' && text !== 'rollback';
    return await this.#ask({ ...this.#prepared(text), values: values.map(toText) });
  }

  /**
   * Statements of a transaction are planned once for each text: to plan one takes longer than to do it. Each finds
   * its rows by an index, since a table that is small then may be large tomorrow. Scans of an index in its order mark
   * entries of dead rows, and scans by bitmap do not: each claim would come by all jobs put aside before it.
   */
  async #begin(): Promise<Answer> {
    this.#gather();
    this.#isBegun = true;
    const plans = ['plan_cache_mode = force_generic_plan', 'enable_seqscan = off', 'enable_bitmapscan = off'];
    await this.#client.query(['begin', ...plans.map((each) => `set local ${each}`)].join('; '));
    return { rows: [], changes: 0, insertId: 0 };
  }

  /** Goes out with what is asked next: should it fail, so does that. */
  #setPlans(plans: 'once' | 'each'): void {
    if (this.#plans === plans) return;
    this.#plans = plans;
    this.#gather();
    const [mode, scans] = plans === 'once' ? ['force_generic_plan', 'off'] : ['auto', 'on'];
    this.#client.query(`set plan_cache_mode = ${mode}; set enable_seqscan = ${scans}`).catch(() => {});
  }

  /**
   * Puts all statements of one turn of the event loop into one packet: sending a packet takes longer than doing a small
   * statement.
   */
  #gather(): void {
    if (this.#isGathering) return;
    const { stream } = (this.#client as unknown as { connection: { stream: Duplex } }).connection;
    this.#isGathering = true;
    stream.cork();
    setImmediate(() => {
      this.#isGathering = false;
      stream.uncork();
    });
  }

  async queryAsIs(text: string, values: readonly unknown[]): Promise<Answer> {
    if (!this.#isBegun) this.#setPlans('each');
    return await this.#ask({ text, values: values.map(toText) });
  }

  async #ask(query: pg.QueryConfig): Promise<Answer> {
    this.#gather();
    try {
      return answerOf(await this.#client.query(query));
    } catch (error) {
      throw withCode(error, codes);
    }
  }

  async listen(onNews: () => void): Promise<boolean> {
    this.#onNews = onNews;
    const own = await this.#ownPid();
    this.#client.on('notification', ({ processId }) => {
      // A session gets no notice of its own writes.
      if (processId !== own) onNews();
    });
    await this.#client.query(`listen ${await this.#nameChannel()}`);
    return true;
  }

  async announce(): Promise<void> {
    // It need not survive a power loss: while it waited for the disk, no other commit with a notice could go on.
    const notify = `notify ${await this.#nameChannel()}`;
    await this.#client.query(`begin; set local synchronous_commit = off; ${notify}; commit`);
  }

  async close(): Promise<void> {
    if (this.isLost) return this.abandon();
    this.isLost = true;
    await lastWords(this.#client.end()).finally(() => this.abandon());
  }

  abandon(): void {
    this.isLost = true;
    this.#client.connection.stream.destroy();
  }

  /** One for each schema: several fleets may share a database. */
  #nameChannel(): Promise<string> {
    this.#channel ??= this.#client
      .query('select current_schema() as name')
      .then(({ rows }) => `"${CHANNEL}_${String(rows[0]?.name).replaceAll('"', '""')}"`);
    return this.#channel;
  }

  async #ownPid(): Promise<number> {
    const { rows } = await this.#client.query('select pg_backend_pid() as pid');
    return rows[0]?.pid;
  }

  /** Prepared once for each connection: planning is most of the price of a small one. */
  #prepared(text: string): { readonly name?: string; readonly text: string } {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const parts = splitAtPlaceholders(text);
    const numbered = parts.reduce((all, part, index) => `${all}$${index}${part}`);
    if (this.#texts.size >= MOST_PREPARED) return { text: numbered };
    const prepared = { name: `s${this.#texts.size}`, text: numbered };
    this.#texts.set(text, prepared);
    return prepared;
  }
}

/** Lists of changing length have texts of their own; the server keeps a plan of each. */
const MOST_PREPARED = 500;

function toText(value: unknown): unknown {
  if (typeof value === 'string') return withoutNul(value);
  return Array.isArray(value) ? listOf(value) : toInput(value);
}

/** PostgreSQL's text holds no NUL. */
function withoutNul(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text;
}

/** A list of texts, numbers and bytes as the server reads it: the driver takes ten times as long. */
function listOf(values: readonly unknown[]): string {
  return `{${values.map(elementOf).join(',')}}`;
}

function elementOf(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (value instanceof Uint8Array) return `"\\\\x${Buffer.from(value).toString('hex')}"`;
  if (typeof value !== 'string') return String(Number(value));
  return `"${withoutNul(value).replace(/["\\]/g, '\\$&')}"`;
}

function answerOf({ rows, rowCount }: pg.QueryResult): Answer {
  return { rows, changes: rowCount ?? 0, insertId: 0 };
}

/** Longest wait for a second connection: a pool in session mode may have none left. */
const PATIENCE_MS = 2_000;

/** Longest wait for an answer: a pool in transaction mode may have one connection, and that has a transaction. */
const HELD_MS = 500;

/**
 * Whether a pooler gives each transaction whatever connection of PostgreSQL is free. Two of its connections that meet
 * the same backend, or one that meets two, prove that; they leave nothing behind.
 *
 * @param one a connection that is open, and has no transaction
 * @param open opens another one
 */
async function sharesSessions(one: pg.Client, open: () => Promise<pg.Client>): Promise<boolean> {
  const opening = open();
  const other = await Promise.race([opening.catch(() => null), sleep(PATIENCE_MS, null, { ref: false })]);
  if (other === null) {
    // Whenever it comes.
    opening.then(end, () => {});
    return false;
  }
  try {
    return await meetAnother(one, other);
  } finally {
    end(other);
  }
}

function end(client: pg.Client): void {
  client.connection.stream.destroy();
}

/** While one has a transaction, the other needs a backend of its own; asked twice after that, it keeps it or does not. */
async function meetAnother(one: pg.Client, other: pg.Client): Promise<boolean> {
  try {
    await one.query('begin');
  } catch (error) {
    if (/statement pooling/.test((error as Error).message)) return true;
    throw error;
  }
  const held = await backendOf(one);
  const first = backendOf(other);
  await Promise.race([first, sleep(HELD_MS, undefined, { ref: false })]);
  await one.query('commit');
  const ofOther = await withinPatience(first, async () => [
    await first,
    await backendOf(other),
    await backendOf(other),
  ]);
  if (ofOther === null) return false;
  const ofOne = [held, await backendOf(one)];
  return new Set(ofOne).size > 1 || new Set(ofOther).size > 1 || ofOther.some((pid) => ofOne.includes(pid));
}

/** Null: there was no first answer in time, as of a pool in session mode that has no connection left. */
async function withinPatience<T>(first: Promise<unknown>, rest: () => Promise<T>): Promise<T | null> {
  const late = sleep(PATIENCE_MS, null, { ref: false });
  const isThere = await Promise.race([first.then(() => true as const).catch(() => null), late]);
  return isThere === null ? null : await rest();
}

/** As simple text: what is prepared stays in a connection that others use next. */
async function backendOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query('select pg_backend_pid() as pid');
  return rows[0]?.pid;
}
