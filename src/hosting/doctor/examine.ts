import { checkCalls } from './check-calls.ts';
import { checkClock } from './check-clock.ts';
import { checkCron } from './check-cron.ts';
import { checkCrontab } from './check-crontab.ts';
import { checkDisk } from './check-disk.ts';
import { checkFileSystem } from './check-file-system.ts';
import { checkJobs } from './check-jobs.ts';
import { checkLeftovers } from './check-leftovers.ts';
import { checkLimits } from './check-limits.ts';
import { checkLocks } from './check-locks.ts';
import { checkLog } from './check-log.ts';
import { checkMemory } from './check-memory.ts';
import { checkNode } from './check-node.ts';
import { checkPauses } from './check-pauses.ts';
import { checkPermissions } from './check-permissions.ts';
import { checkProc } from './check-proc.ts';
import { checkSendmail } from './check-sendmail.ts';
import { checkSettings } from './check-settings.ts';
import { checkSqlite } from './check-sqlite.ts';
import { type Check, type Finding, warning } from './finding.ts';
import { type DoctorPlace, openPlace, type PlaceRequest } from './place.ts';

/** A finding with the name of the check that made it. */
export interface Checked extends Finding {
  readonly name: string;
}

const checks: readonly Check[] = [
  checkNode,
  checkSqlite,
  checkSettings,
  checkJobs,
  checkCrontab,
  checkCron,
  checkCalls,
  checkClock,
  checkDisk,
  checkFileSystem,
  checkLocks,
  checkLimits,
  checkMemory,
  checkProc,
  checkSendmail,
  checkPermissions,
  checkLog,
  checkLeftovers,
  checkPauses,
];

/** Looks at the place the runner runs in, one check after another; changes nothing. */
export async function* examinePlace(request: PlaceRequest): AsyncGenerator<Checked> {
  const place = openPlace(request);
  for (const check of checks) {
    for (const finding of await runCheck(check, place)) yield { name: check.name, ...finding };
  }
}

/** The checks have time limits of their own; this one is for what nobody thought of. */
const LONGEST_CHECK_MS = 120_000;

async function runCheck(check: Check, place: DoctorPlace): Promise<readonly Finding[]> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_, reject) => {
    const error = new Error(`no answer within ${LONGEST_CHECK_MS / 1000} s`);
    timer = setTimeout(() => reject(error), LONGEST_CHECK_MS);
  });
  try {
    return await Promise.race([(async () => check.run(place))(), tooLong]);
  } catch (error) {
    return [couldNotCheck(error)];
  } finally {
    clearTimeout(timer);
  }
}

function couldNotCheck(error: unknown): Finding {
  const message = error instanceof Error ? error.message : String(error);
  return warning(
    `could not be checked: ${message.split('\n', 1)[0]}`,
    'Put right what the other lines say, then look again.',
  );
}
