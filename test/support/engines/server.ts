import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSyncFn, type Syncify } from 'synckit';
import { DATABASE_VARIABLE } from '../../../src/store/server/connect/url.ts';
import type { Asked, AskServer } from './connections-worker.ts';
import { type Engine, type LogConnection, type ViewSql, viewsOf } from './engine.ts';

export interface Connection {
  readonly isNew: boolean;
  ask(sql: string, values?: readonly unknown[]): Asked;
  /** Whoever wants one for the same gets this one. */
  giveBack(): void;
  close(): void;
}

interface Known {
  readonly id: number;
  readonly url: string;
  readonly purpose: string;
  isFree: boolean;
}

/** Connections to servers whose answers are waited for while the process does nothing else. */
export class Connections {
  #ask: Syncify<AskServer> | null = null;
  #known: readonly Known[] = [];
  #count = 0;

  take(url: string, purpose: string): Connection {
    const free = this.#known.find((one) => one.isFree && one.url === url && one.purpose === purpose);
    const mine = free ?? this.#add(url, purpose);
    mine.isFree = false;
    return {
      isNew: free === undefined,
      ask: (sql, values = []) => this.#askServer(mine, sql, values),
      giveBack: () => {
        mine.isFree = true;
      },
      close: () => this.#close(mine),
    };
  }

  closeAll(isOne: (url: string) => boolean): void {
    for (const one of this.#known.filter(({ url }) => isOne(url))) this.#close(one);
  }

  #add(url: string, purpose: string): Known {
    this.#count += 1;
    const added = { id: this.#count, url, purpose, isFree: false };
    this.#known = [...this.#known, added];
    return added;
  }

  #close(one: Known): void {
    this.#known = this.#known.filter((other) => other !== one);
    this.#askServer(one, null, []);
  }

  #askServer({ id, url }: Known, sql: string | null, values: readonly unknown[]): Asked {
    this.#ask ??= createSyncFn<AskServer>(new URL('./connections-worker.ts', import.meta.url), { timeout: 50_000 });
    return this.#ask({ connection: id, url, sql, values });
  }
}

/** How a database server does what tests want of it. The tables of a root have a name there. */
interface Server {
  readonly name: 'postgres' | 'mysql';
  /** Variable of the environment that tells where it is. */
  readonly variable: string;
  /** What a runner is told. */
  urlOf(server: string, name: string): string;
  /** The name in that. */
  nameIn(url: string): string;
  /** Of who may do all there. */
  ownerUrl(server: string, name: string): string;
  readerUrl(server: string, name: string): string;
  administratorUrl(server: string): string;
  make(name: string): readonly string[];
  drop(name: string): readonly string[];
  /** Numbers of the connections of others: processes of a test, and what it has opened itself. */
  others(administrator: Connection, name: string): readonly number[];
  endOther(administrator: Connection, id: number): void;
  /** As it was before there were tables; whether these are still there is all the same. */
  empty(owner: Connection, tables: readonly string[]): void;
  tables(name: string): string;
  /** Has these views hide the tables for all who read, or for one of them. */
  showToAll(name: string, tables: () => readonly string[], views: Views): readonly string[];
  showToOne(views: Views): readonly string[];
  readonly beginReading: readonly string[];
  readonly sql: Omit<ViewSql, 'table'>;
  hold(tables: readonly string[], patienceMs: number): readonly string[];
  isHeld(error: NodeJS.ErrnoException): boolean;
  /** Statements after which others as `update on runs` fail, and those that end that. */
  refuse(what: string): { readonly begin: readonly string[]; readonly end: readonly string[] };
  /** Has a connection check nothing. */
  lie(tables: readonly string[]): readonly string[];
}

type Views = Readonly<Record<string, string>>;

/** How names begin. */
export const TABLES_OF_TESTS = 'test_';

/** So long it takes until a connection is gone that was closed. */
const CLOSING_MS = 500;
const POLL_MS = 5;

/** Added to the schema's version: some runner of the future. */
const NEWER = 1_000;

export function createServerEngine(server: Server): Engine {
  const { name: engineName, variable } = server;
  const connections = new Connections();
  const names = new Names();
  const isShown = new Set<string>();
  /** They have lost what keeps them in order, and are not used again. */
  const isSpoiled = new Set<string>();

  const here = (): string => {
    const url = process.env[variable];
    if (url === undefined) throw new Error(`${variable} does not tell where the server is.`);
    return url;
  };
  /** Another process has its root's name from its environment. */
  const nameOf = (root: string): string => names.of(root) ?? server.nameIn(process.env[DATABASE_VARIABLE] ?? '');
  const take = (root: string, purpose: string): Connection =>
    connections.take(server.ownerUrl(here(), nameOf(root)), purpose);

  function using<T>(connection: Connection, work: (connection: Connection) => T): T {
    try {
      return work(connection);
    } finally {
      connection.giveBack();
    }
  }
  const administer = <T>(work: (connection: Connection) => T): T =>
    using(connections.take(server.administratorUrl(here()), 'administer'), work);

  const tablesOf = (connection: Connection, name: string): readonly string[] =>
    connection.ask(server.tables(name)).rows.map((row) => (row as { readonly name: string }).name);

  function connectToRead(root: string): Connection {
    const name = nameOf(root);
    const views = viewsOf({ ...server.sql, table: (table) => `${name}.${table}` });
    if (!isShown.has(name)) {
      administer((connection) =>
        askAll(
          connection,
          server.showToAll(name, () => tablesOf(connection, name), views),
        ),
      );
      isShown.add(name);
    }
    const connection = connections.take(server.readerUrl(here(), name), 'read');
    if (connection.isNew) askAll(connection, server.showToOne(views));
    return connection;
  }

  /** Who is not gone soon lives on, and what it does next would be done to another test's rows of the same numbers. */
  async function partFromOthers(name: string): Promise<void> {
    const others = () => administer((administrator) => server.others(administrator, name));
    const deadline = performance.now() + CLOSING_MS;
    while (others().length > 0 && performance.now() < deadline) await sleep(POLL_MS);
    for (const id of others()) {
      isSpoiled.add(name);
      administer((administrator) => server.endOther(administrator, id));
    }
  }

  function clear(name: string): void {
    administer((administrator) => {
      if (isSpoiled.has(name)) askAll(administrator, server.drop(name));
      else {
        const owner = connections.take(server.ownerUrl(here(), name), 'change');
        using(owner, () => server.empty(owner, tablesOf(owner, name)));
      }
    });
  }

  return {
    name: engineName,
    environment: () => ({
      TEST_ENGINE: engineName,
      [variable]: process.env[variable],
      [DATABASE_VARIABLE]: process.env[DATABASE_VARIABLE],
    }),
    choose: (root) => {
      const before = process.env[DATABASE_VARIABLE];
      const name = names.give(root, (fresh) => administer((connection) => askAll(connection, server.make(fresh))));
      useDatabase(server.urlOf(here(), name));
      return async () => {
        useDatabase(before);
        await partFromOthers(name);
        if (isSpoiled.has(name)) connections.closeAll((url) => url.includes(name));
        clear(name);
        names.takeBack(root, !isSpoiled.has(name));
      };
    },
    openStore: async (state) => {
      useDatabase(server.urlOf(here(), nameOf(dirname(state.path))));
      const { openStore } = await import('../../../src/store/open.ts');
      return await openStore(state);
    },
    hasTables: (root) =>
      using(take(root, 'change'), (connection) => {
        if (!tablesOf(connection, nameOf(root)).includes('schema_version')) return false;
        return connection.ask('select version from schema_version').rows.length > 0;
      }),
    connect: (root, access) => {
      if (access === 'read') {
        const connection = connectToRead(root);
        askAll(connection, server.beginReading);
        return logOf(connection, 'rollback');
      }
      const connection = take(root, access);
      if (access === 'lie') {
        isSpoiled.add(nameOf(root));
        askAll(connection, server.lie(tablesOf(connection, nameOf(root))));
      }
      return logOf(connection);
    },
    watch: (root) => {
      const connection = connectToRead(root);
      return {
        look: (read) => {
          askAll(connection, server.beginReading);
          try {
            return read(logOf(connection));
          } finally {
            connection.ask('rollback');
          }
        },
        close: () => connection.giveBack(),
      };
    },
    findDamage: ({ all }) =>
      references.flatMap(([table, column, other]) =>
        all(`select ${column} from ${table} where ${column} not in (select id from ${other})`).map(
          (row) => `${table} names one of ${other} that is not there: ${JSON.stringify(row)}`,
        ),
      ),
    hold: (root, patienceMs) => {
      const connection = take(root, 'hold');
      try {
        askAll(connection, server.hold(tablesOf(connection, nameOf(root)), patienceMs));
      } catch (error) {
        connection.close();
        if (!server.isHeld(error as NodeJS.ErrnoException)) throw error;
        return null;
      }
      return logOf(connection, 'commit');
    },
    refuse: (root, what) =>
      using(take(root, 'change'), (connection) => {
        const refusal = server.refuse(what);
        isSpoiled.add(nameOf(root));
        askAll(connection, refusal.begin);
        return () => using(take(root, 'change'), (other) => askAll(other, refusal.end));
      }),
    setNewer: (root, isNewer) =>
      using(take(root, 'change'), (connection) => {
        connection.ask(
          isNewer
            ? `insert into schema_version (version) select max(version) + ${NEWER} from schema_version`
            : `delete from schema_version where version > ${NEWER}`,
        );
      }),
  };
}

/** What keeps these whole is the server itself, unless it was told to check nothing. */
const references = [
  ['runs', 'job_id', 'jobs'],
  ['outputs', 'run_id', 'runs'],
  ['counts', 'run_id', 'runs'],
  ['deviations', 'run_id', 'runs'],
] as const;

/** Which root has which tables: they are used again, as to make them takes longer than most tests. */
class Names {
  readonly #names = new Map<string, string>();
  readonly #free: string[] = [];
  #count = 0;

  give(root: string, make: (name: string) => void): string {
    const name = this.#free.pop() ?? this.#make(make);
    this.#names.set(root, name);
    return name;
  }

  takeBack(root: string, isReusable: boolean): void {
    const name = this.#names.get(root);
    this.#names.delete(root);
    if (name !== undefined && isReusable) this.#free.push(name);
  }

  /** Of a root, or what lies in one. */
  of(path: string): string | undefined {
    return [...this.#names].find(([root]) => path === root || path.startsWith(`${root}/`))?.[1];
  }

  #make(make: (name: string) => void): string {
    this.#count += 1;
    const name = `${TABLES_OF_TESTS}${process.env.TEST_RUN}_${process.pid}_${this.#count}`;
    make(name);
    return name;
  }
}

/** Each root has a user of its own, who may do no more than a runner needs. */
export function asUser(url: string, user: string): string {
  return Object.assign(new URL(url), { username: user, password: 'password' }).href;
}

function useDatabase(url: string | undefined): void {
  const { env } = process;
  if (url === undefined) delete env[DATABASE_VARIABLE];
  else env[DATABASE_VARIABLE] = url;
}

function askAll(connection: Connection, statements: readonly string[]): void {
  for (const statement of statements) connection.ask(statement);
}

function logOf(connection: Connection, last?: 'commit' | 'rollback'): LogConnection {
  return {
    all: <Row>(sql: string, ...values: readonly unknown[]) => connection.ask(sql, values).rows as Row[],
    change: (sql, ...values) => connection.ask(sql, values).changes,
    close: () => {
      if (last !== undefined) connection.ask(last);
      connection.giveBack();
    },
  };
}
