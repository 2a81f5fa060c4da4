import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { errorLine } from './error-line.ts';
import { type Check, type Finding, ok, problem, warning } from './finding.ts';
import { inScratchFolder } from './scratch-folder.ts';
import { NO_SQLITE, type SqliteCommand, sqliteCommand } from './sqlite-command.ts';

/**
 * Takes SQLite's write lock and keeps it until it is ended. In processes of their own: within one,
 * SQLite does not ask the file system.
 */
const HOLD_LOCK = `
  database.exec('create table if not exists tried (at integer); begin immediate; insert into tried values (1)');
  process.stdout.write('held');
  setTimeout(() => {}, 60_000);
`;

const PATIENCE_MS = 15_000;

type Attempt = 'held' | 'locked' | 'no-answer';

export const checkLocks: Check = {
  name: 'locks',
  run: (place) => inScratchFolder(place, (folder) => tryLocks(join(folder, 'locks.db'), place.env)),
};

const NOT_SAFE =
  'Move the root to a file system of the machine itself: here two passes can hurt the log.';

async function tryLocks(path: string, env: NodeJS.ProcessEnv): Promise<readonly Finding[]> {
  const holder = await sqliteCommand(HOLD_LOCK, { path, access: 'mode=rwc', env });
  if (holder === null) return [judgeFirst(NO_SQLITE)];
  const first = await holdLock(holder);
  const second = await holdLock(holder);
  await Promise.all([first.end(), second.end()]);
  const third = await holdLock(holder);
  await third.end();
  return [judge(first, second, third)];
}

function judge(first: Holder, second: Holder, third: Holder): Finding {
  if (first.attempt !== 'held') return judgeFirst(first.said);
  if (second.attempt === 'held') {
    return problem('two processes got the same lock at once', NOT_SAFE);
  }
  if (second.attempt === 'no-answer') {
    return problem(
      `a second process waits for a held lock without an answer: ${second.said}`,
      NOT_SAFE,
    );
  }
  if (third.attempt !== 'held') {
    return problem(`the lock of a process that was killed stays: ${third.said}`, NOT_SAFE);
  }
  return ok('work: one process at a time, and free again when it is killed');
}

function judgeFirst(said: string): Finding {
  if (errorLine(said) !== null) return problem(`SQLite cannot lock a file here: ${said}`, NOT_SAFE);
  return warning(
    `could not be tried: ${said}`,
    'See what sqlite, limits and memory say, then look again.',
  );
}

interface Holder {
  readonly attempt: Attempt;
  readonly said: string;
  end(): Promise<void>;
}

function holdLock({ command: [node, ...args], env }: SqliteCommand): Promise<Holder> {
  const child = spawn(node, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const end = async (): Promise<void> => {
    child.kill('SIGKILL');
    await Promise.race([closed, wait(PATIENCE_MS)]);
  };
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text;
  });
  return new Promise((resolve) => {
    const answer = (attempt: Attempt, said: string): void => resolve({ attempt, said, end });
    child.stdout.once('data', () => answer('held', ''));
    child.once('error', (error) => answer('no-answer', error.message));
    child.once('close', () =>
      answer(/database is locked/.test(complaint) ? 'locked' : 'no-answer', reasonOf(complaint)),
    );
    void wait(PATIENCE_MS).then(() =>
      answer('no-answer', `nothing within ${PATIENCE_MS / 1000} s`),
    );
  });
}

function reasonOf(complaint: string): string {
  return errorLine(complaint) ?? complaint.trim().split('\n', 1)[0] ?? '';
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
