import { statSync } from 'node:fs';
import type { StateFolder } from '../../config/state-folder.ts';
import { assertWritable } from '../../store/inspect-log.ts';
import { mayBeImmutable } from '../../store/open-read-only.ts';
import { type Answer, askProgram, describeFailure } from './ask-program.ts';
import { errorLine } from './error-line.ts';
import { NO_SQLITE, type SqliteAccess, sqliteCommand } from './sqlite-command.ts';

/** What the log's file says of itself. */
export interface LogFile {
  readonly bytes: number;
  /** Why it cannot be written; null: it can. */
  readonly writeFailure: string | null;
  readonly isRead: boolean;
  /** Why it was not read: broken, locked, too slow; empty where it was. */
  readonly failure: string;
  readonly applicationId: number;
  readonly schemaVersion: number;
  /** Null where that cannot be told without a chance to write. */
  readonly journalMode: string | null;
  /** What `pragma quick_check` complains of. */
  readonly damages: readonly string[];
}

type Reading = Omit<LogFile, 'bytes' | 'writeFailure'>;

/** A large log on a slow disk takes long to be read as a whole. */
const PATIENCE_MS = 60_000;

/**
 * In a process of its own, which can be ended when it takes too long, and whose death at a file that
 * shrinks while it is mapped is only an answer. What it may write is what SQLite mends by itself.
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
export async function examineLogFile(
  state: StateFolder,
  env: NodeJS.ProcessEnv,
): Promise<LogFile | null> {
  const stats = statSync(state.database, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  const writeFailure = findWriteFailure(state);
  const read = (access: SqliteAccess) => readFile(state.database, access, env);
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
  if (reading.isRead || !mayBeImmutable(database)) return reading;
  return { ...(await read('immutable=1')), journalMode: null };
}

async function readFile(
  path: string,
  access: SqliteAccess,
  env: NodeJS.ProcessEnv,
): Promise<Reading> {
  const request = await sqliteCommand(EXAMINE, { path, access, env });
  if (request === null) return unread(NO_SQLITE);
  const answer = await askProgram(request.command, { env: request.env, timeoutMs: PATIENCE_MS });
  if (answer.exitCode !== 0) return unread(reasonOf(answer));
  return { isRead: true, failure: '', ...JSON.parse(answer.stdout) };
}

function unread(failure: string): Reading {
  const unknown = { applicationId: 0, schemaVersion: 0, journalMode: null, damages: [] };
  return { isRead: false, failure, ...unknown };
}

function reasonOf(answer: Answer): string {
  return errorLine(answer.stderr)?.replace(/^\S+ /, '') ?? describeFailure(answer);
}
