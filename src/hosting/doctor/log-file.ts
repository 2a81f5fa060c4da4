import { statSync } from 'node:fs';
import type { StateFolder } from '../../config/state-folder.ts';
import { findOwnNode } from '../../process/find-program.ts';
import { type Answer, askProgram, describeFailure } from './ask-program.ts';

/** What the log's file says of itself. */
export interface LogFile {
  readonly bytes: number;
  readonly isRead: boolean;
  /** Why it was not read: broken, locked, too slow; empty where it was. */
  readonly failure: string;
  readonly applicationId: number;
  readonly schemaVersion: number;
  readonly journalMode: string;
  /** What `pragma quick_check` complains of. */
  readonly damages: readonly string[];
}

/** A large log on a slow disk takes long to be read as a whole. */
const PATIENCE_MS = 60_000;

/**
 * In a process of its own, which can be ended when it takes too long, and whose death at a file that
 * shrinks while it is mapped is only an answer. What it may write is what SQLite mends by itself.
 */
const EXAMINE = `
  const { DatabaseSync } = require('node:sqlite');
  const database = new DatabaseSync(process.argv[1]);
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
  { database }: StateFolder,
  env: NodeJS.ProcessEnv,
): Promise<LogFile | null> {
  const stats = statSync(database, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  const answer = await askProgram([findOwnNode(), '-e', EXAMINE, database], {
    env,
    timeoutMs: PATIENCE_MS,
  });
  const unread = { applicationId: 0, schemaVersion: 0, journalMode: '', damages: [] };
  return answer.exitCode === 0
    ? { bytes: stats.size, isRead: true, failure: '', ...JSON.parse(answer.stdout) }
    : { bytes: stats.size, isRead: false, failure: reasonOf(answer), ...unread };
}

function reasonOf(answer: Answer): string {
  return /^\s*\w*Error: (.*)/m.exec(answer.stderr)?.[1] ?? describeFailure(answer);
}
