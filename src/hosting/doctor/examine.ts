import {
  type Check,
  type CheckFinding,
  type DoctorPlace,
  openPlace,
  type PlaceRequest,
  warning,
} from './check.ts';
import { checkCalls, checkCron, checkCrontab } from './checks-cron.ts';
import { checkDisk, checkFileSystem, checkPermissions } from './checks-files.ts';
import {
  checkClock,
  checkLimits,
  checkMemory,
  checkNode,
  checkProc,
  checkSendmail,
  checkSqlite,
} from './checks-host.ts';
import {
  checkConfig,
  checkJobs,
  checkLeftovers,
  checkLocks,
  checkLog,
  checkPauses,
} from './checks-root.ts';

/** A finding with the name of the check that made it. */
export interface Checked extends CheckFinding {
  readonly name: string;
}

const checks: readonly Check[] = [
  checkNode,
  checkSqlite,
  checkConfig,
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

async function runCheck(check: Check, place: DoctorPlace): Promise<readonly CheckFinding[]> {
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

function couldNotCheck(error: unknown): CheckFinding {
  const message = error instanceof Error ? error.message : String(error);
  return warning(
    `could not be checked: ${message.split('\n', 1)[0]}`,
    'Fix what the other lines report, then look again.',
  );
}
