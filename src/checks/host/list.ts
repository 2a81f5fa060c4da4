import { checkAlerts } from './alerts.ts';
import { checkCalls, checkCron, checkCrontab } from './crontab.ts';
import { checkDisk, checkFileSystem, checkPermissions } from './files.ts';
import { checkClock, checkLimits, checkMemory, checkNode, checkProc, checkSendmail, checkSqlite } from './host.ts';
import { checkMachines } from './machines.ts';
import { checkConfig, checkJobs, checkLeftovers, checkLocks, checkLog, checkPauses } from './root.ts';
import type { HostCheck } from './site.ts';

/** Checks of the host, in the order in which they are shown: they start processes, and load half of the runner. */
export const hostChecks: readonly HostCheck[] = [
  ...[checkNode, checkSqlite, checkConfig, checkJobs],
  ...[checkCrontab, checkCron, checkCalls, checkClock],
  ...[checkDisk, checkFileSystem, checkLocks, checkLimits, checkMemory, checkProc],
  ...[checkSendmail, checkAlerts, checkPermissions],
  ...[checkLog, checkMachines, checkLeftovers, checkPauses],
];
