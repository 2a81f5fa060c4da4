import { realpathSync } from 'node:fs';
import { userInfo } from 'node:os';
import { UsageError } from '../../config/usage-error.ts';
import { removeBlock } from '../crontab-block.ts';
import { readCrontab } from '../crontab-program.ts';
import { type CrontabLine, parseCrontab } from './crontab-line.ts';

/** What the user's crontab has to do with this root. */
export interface CrontabCalls {
  /** Why it could not be read; null: it was. */
  readonly failure: string | null;
  /** What is wrong with the marked block; null: nothing. */
  readonly damage: string | null;
  /** The lines that call this root. */
  readonly lines: readonly CrontabLine[];
  /** Lines whose root is not there, perhaps since it was moved. */
  readonly lost: readonly CrontabLine[];
}

export function readCrontabCalls(root: string, env: NodeJS.ProcessEnv): CrontabCalls {
  const none = { damage: null, lines: [], lost: [] };
  try {
    const crontab = readCrontab(env);
    const all = parseCrontab(crontab.toString(), cronUser(env));
    return {
      failure: null,
      damage: describeDamage(crontab, root),
      lines: all.filter((line) => line.root !== null && isSame(line.root, root)),
      lost: all.filter((line) => line.root === null && line.namedRoot !== null),
    };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { ...none, failure: error.message };
  }
}

function describeDamage(crontab: Buffer, root: string): string | null {
  try {
    removeBlock(crontab, root);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

function isSame(one: string, other: string): boolean {
  return realpathSync(one) === realpathSync(other);
}

function cronUser({ HOME, LOGNAME, USER }: NodeJS.ProcessEnv) {
  return { home: HOME ?? '/', name: LOGNAME ?? USER ?? nameInDatabase() };
}

/** A container's user may have no entry. */
function nameInDatabase(): string {
  try {
    return userInfo().username;
  } catch {
    return 'nobody';
  }
}
