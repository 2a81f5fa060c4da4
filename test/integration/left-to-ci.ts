import { join } from 'node:path';
import { globSync } from 'glob';
import { SHARE } from '../faults/rounds.ts';

const project = join(import.meta.dirname, '../..');

/**
 * Tests that change the machine: as root they add users, mount disks, start daemons, run the system's
 * jobs. And those that need Debian's packages.
 */
export const leftToCi = [
  'test/integration/cron-daemon.test.ts',
  'test/integration/debian-cron-daily.test.ts',
  'test/integration/first-hour.test.ts',
  'test/integration/old-sqlite.test.ts',
  'test/integration/php.test.ts',
  // Of two servers each, one of them Debian's.
  'test/move/move-log.test.ts',
  'test/worker/database-away.test.ts',
  // Of machines with networks of their own.
  'test/faults/fleet-chaos.test.ts',
  ...globSync('test/faults/*.root.test.ts', { cwd: project }).sort(),
];

/** Set by `.ci/run`, where the machine is there for nothing else. */
export const isMachineOurs = process.env.RUN_INTEGRATION === '1';

/** Tests that take long. Whoever names files has them run, and so has `RUN_LENGTHY`, of which 0 keeps them away. */
export const lengthy = globSync(
  [
    'test/faults/*.test.ts',
    // A real browser.
    'test/dashboard/{charts,html-report,login,manage,one-clock,overview,squatter,viewers,widths,xss}.test.ts',
    // Properties, of many cases.
    'test/dashboard/fuzz.test.ts',
    'test/execution/{mask-secrets,process-sampler}.test.ts',
    'test/lock/take-turns.test.ts',
    'test/monitor/usual.test.ts',
    'test/store/{two-logs,spool/spool-writer}.test.ts',
    'test/dashboard/{access,api-client,events,output,web}.test.ts',
    'test/alert/gone.test.ts',
    'test/child/{call-default,record-end,typescript}.test.ts',
    'test/commands/{add,backup,claim-follow,doubtful-runs,dry-run,failure-summary,import,jobs}.test.ts',
    'test/commands/{live-progress,restore,script-files,shell,stop-on-signals,watch,watched-runs,work}.test.ts',
    'test/commands/{unsettled-settings,web-root}.test.ts',
    'test/config/load-settings.test.ts',
    'test/discovery/handlers.test.ts',
    'test/docs/{database,examples,report-picture}.test.ts',
    'test/hosting/crontab/import/{apply,known-crontabs}.test.ts',
    'test/hosting/{cron-command,current-link,doctor-database,init,move}.test.ts',
    'test/hosting/crontab/script.test.ts',
    'test/integration/stress.test.ts',
    'test/jobs/{check-site,post-webhook}.test.ts',
    'test/monitor/change.test.ts',
    'test/queue/{memory-of-lists,random-lives}.test.ts',
    'test/move/migrate-command.test.ts',
    // Hundreds of commands, one after the other.
    'test/commands/new-script.test.ts',
    'test/docs/types.test.ts',
    // The product twice, from its sources.
    'test/wording/other-words.test.ts',
    'test/execution/{code-variables,environment,handler-isolated,handler-several,output-guard}.test.ts',
    'test/execution/handler-{channel,limits,lost,replaced,warm}.test.ts',
    'test/execution/{memory-limits,start-watchdog}.test.ts',
    'test/hosting/doctor/doctor-{command,crontab,host,log}.test.ts',
    'test/recovery/replay-spool.test.ts',
    'test/repeat/cron-fields.test.ts',
    'test/report/{activity,next-times,pause-commands,readers-change-nothing}.test.ts',
    'test/store/{external-database,read-backup,server-connections,server-settings,server-tls,watch-log}.test.ts',
    'test/worker/{backlog,fleet,fleet-times,forty-days,held-scripts,one-zone,orphans,package-gone,reboot}.test.ts',
    'test/worker/{run-due,schedule,tier-lock,unreadable-folders,without-log}.test.ts',
    'test/worker/queue/{executors,previously-crashed,taken-jobs}.test.ts',
  ],
  { cwd: project, ignore: leftToCi },
).sort();

const areSomeNamed = process.argv.some((arg) => /^(?!-).*\.test\.ts$|^test\//.test(arg));

export const areLengthyHere = (process.env.RUN_LENGTHY ?? (areSomeNamed ? '1' : '0')) === '1';

/** Another one each day, so that the points that are hit change; to be given to see a failure again. */
export function setup(): void {
  process.env.FAULT_SEED ??= String(Math.floor(Date.now() / 86_400_000));
}

/** Said last, so that nobody takes a green run for all there is. */
export function teardown(): void {
  if (!isMachineOurs) {
    const files = leftToCi.join(', ');
    tell(`NOT RUN HERE: ${files} need root, Debian packages and a machine of their own; .ci/run runs them.`);
  }
  if (!areLengthyHere) {
    tell(`NOT RUN HERE: ${lengthy.join(', ')} take long; .ci/run runs them, and so does whoever names them.`);
    return;
  }
  const seed = `FAULT_SEED=${process.env.FAULT_SEED}`;
  if (process.env.FAULT_POINTS === 'tenths') {
    tell(`A TENTH: one of 10 places in the code is hit, that of ${seed}; FAULT_POINTS=places hits each of them.`);
  } else if (SHARE > 1) {
    tell(`A SAMPLE: one of ${SHARE} fault points is hit, those of ${seed}; FAULT_POINTS=places hits each place.`);
  }
}

function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}
