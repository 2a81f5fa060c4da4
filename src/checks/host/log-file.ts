import { statSync } from 'node:fs';
import { openExistingStore } from '../../store/open.ts';
import { SCHEMA_VERSION } from '../../store/schema.ts';
import { findDriver } from '../../store/sqlite/driver.ts';
import { assertWritable, findSpecial } from '../../store/sqlite/file.ts';
import { findSchemaFlaws, type SchemaFlaw } from '../../store/sqlite/migrations.ts';
import { mayBeImmutable, openExistingSqliteStore } from '../../store/sqlite/open.ts';
import { checksOf, type TierCallRow } from '../../store/statements/monitor/checks.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { Store } from '../../store/store.ts';
import { describeSpecial } from '../../system/base/plain-file.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import {
  askProgram,
  NO_SQLITE,
  type ProbeAnswer,
  reasonOfFailure,
  type SqliteAccess,
  sqliteCommand,
} from './probes.ts';

/** Facts that the log's file states about itself. */
export interface LogFile {
  readonly bytes: number;
  /** Why it cannot be written; null: it can. */
  readonly writeFailure: string | null;
  /** Why it was not read: broken, locked, too slow; null: it was. */
  readonly failure: string | null;
  readonly applicationId: number;
  readonly schemaVersion: number;
  /** Null if a read-only connection cannot tell. */
  readonly journalMode: string | null;
  /** The complaints of `pragma quick_check`. */
  readonly damages: readonly string[];
}

type Reading = Omit<LogFile, 'bytes' | 'writeFailure'>;

/** A large log on a slow disk takes long to be read as a whole. */
const TIMEOUT_MS = 60_000;

/**
 * Runs in a process of its own. The process can be ended if it takes too long, and it may die of a file that shrinks
 * while mapped. It writes only the repairs that SQLite makes by itself.
 */
const EXAMINE = `
  database.exec('pragma busy_timeout = 5000; pragma query_only = on');
  const ask = (name) => database.prepare('pragma ' + name).all().map((row) => Object.values(row)[0]);
  console.log(JSON.stringify({
    applicationId: ask('application_id')[0],
    schemaVersion: ask('user_version')[0],
    journalMode: ask('journal_mode')[0],
    damages: ask('quick_check(3)').filter((each) => each !== 'ok'),
  }));
`;

/** Null where there is none. */
export async function examineLogFile(state: StateFolder, env: NodeJS.ProcessEnv): Promise<LogFile | null> {
  const stats = statSync(state.database, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  const writeFailure = findWriteFailure(state);
  const read = (access: SqliteAccess) => readLogFile(state.database, access, env);
  const reading = await (writeFailure === null ? read('mode=rw') : readUnwritable(state, read));
  return { bytes: stats.size, writeFailure, ...reading };
}

function findWriteFailure(state: StateFolder): string | null {
  try {
    assertWritable(state);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** As the commands that read the log do it. */
async function readUnwritable(
  { database }: StateFolder,
  read: (access: SqliteAccess) => Promise<Reading>,
): Promise<Reading> {
  const reading = await read('mode=ro');
  if (reading.failure === null || !mayBeImmutable(database)) return reading;
  return { ...(await read('immutable=1')), journalMode: null };
}

async function readLogFile(path: string, access: SqliteAccess, env: NodeJS.ProcessEnv): Promise<Reading> {
  const special = findSpecial(path);
  if (special !== null) return unread(describeSpecial(special));
  const request = await sqliteCommand(EXAMINE, { path, access, env });
  if (request === null) return unread(NO_SQLITE);
  const answer = await askProgram(request.command, { env: request.env, timeoutMs: TIMEOUT_MS });
  if (answer.exitCode !== 0) return unread(reasonOf(answer));
  return { failure: null, ...JSON.parse(answer.stdout) };
}

function unread(failure: string): Reading {
  return { failure, applicationId: 0, schemaVersion: 0, journalMode: null, damages: [] };
}

/** Without the name of the driver's class of errors. */
function reasonOf(answer: ProbeAnswer): string {
  return reasonOfFailure(answer).replace(/^\w*Error(?: \[\w+\])?: /, '');
}

/** The facts from the log that the checks need. */
export interface LogFacts {
  /** When the newest worker started; null in an empty log. */
  readonly newestAt: number | null;
  readonly calls: readonly TierCallRow[];
  readonly pauses: readonly Pause[];
}

export interface LogReading {
  /** Null where there is no log that can be read. */
  readonly facts: LogFacts | null;
  /** Why a log whose file is sound could not be opened. */
  readonly failure: string | null;
  /** Changes that another program has made to its tables. */
  readonly flaws: readonly SchemaFlaw[];
}

/** Opens only what needs no change: a broken file would be set aside, an older one brought up to date. */
export async function readLogFacts(state: StateFolder, file: LogFile | null, nowMs: number): Promise<LogReading> {
  const isSound = file?.failure === null && file.damages.length === 0;
  if (!isSound || file.schemaVersion !== SCHEMA_VERSION) return nothing;
  let flaws: readonly SchemaFlaw[] = [];
  try {
    const store = await openExistingSqliteStore(state);
    if (store === null) return nothing;
    try {
      flaws = findSchemaFlaws(store.connection, (await findDriver()).driver);
      return { ...nothing, facts: await readFacts(store, nowMs), flaws };
    } finally {
      await store.close();
    }
  } catch (error) {
    return { ...nothing, failure: (error as Error).message, flaws };
  }
}

/** The same of a log on a database server. */
export async function readServerFacts(state: StateFolder, nowMs: number): Promise<LogReading> {
  try {
    const store = await openExistingStore(state);
    if (store === null) return nothing;
    return { ...nothing, facts: await readFacts(store, nowMs).finally(() => store.close()) };
  } catch (error) {
    return { ...nothing, failure: (error as Error).message };
  }
}

const nothing: LogReading = { facts: null, failure: null, flaws: [] };

async function readFacts(store: Store, nowMs: number): Promise<LogFacts> {
  return {
    newestAt: await store.events.newestAt(),
    calls: await checksOf(store.statements).tiers(),
    pauses: await store.pauses.inForce(nowMs),
  };
}
