import { join } from 'node:path';
import { globSync } from 'glob';

/*
 * Which tests `.ci/run` runs where, beside `npm test`, which README has everybody run: as an ordinary user, on SQLite,
 * with what states the dialect of PostgreSQL. `node .ci/matrix.ts <name>` prints the words of a call of vitest, a line
 * each, and on standard error what it leaves out. A pattern that names no file is a mistake.
 */

interface Run {
  readonly engines: string;
  /** Kinds (see `test/kinds.ts`), or patterns of files; none of both: all kinds that leave the machine as it is. */
  readonly kinds?: readonly string[];
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  /** Tests wait for other processes more than they work; with too many at once they run into their deadlines. */
  readonly workers: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Why it runs these here, and those not. */
  readonly why: string;
}

/** Without Debian's packages, some of their tests are skipped; and so it is with the servers that they start. */
const needMachine = [
  'test/processes/doctor/{doctor-host,doctor-database}.test.ts',
  'test/processes/execution/environment.test.ts',
  'test/processes/cli/dry-run.test.ts',
  'test/processes/store/server.test.ts',
  'test/processes/docs/database.test.ts',
  'test/command/clients/clients.test.ts',
];

const integration = { engines: 'sqlite', env: { RUN_INTEGRATION: '1' } };
const asRoot = { ...integration, workers: 1, env: { ...integration.env, FAULT_POINTS: 'tenths', FLEET_SLOTS: '12' } };
const firstHour = 'test/integration/first-hour.test.ts';
const fleet = {
  ...integration,
  engines: 'mysql',
  only: ['test/machines/fleet-chaos.test.ts'],
  workers: 1,
  why: 'A server that is broken on purpose is this test’s own.',
};

/** Text, settings, other programs, SQL of one driver. */
const sameOnAnyNode = [
  'test/{faults,browser,docs}/**',
  'test/engines/!(store)/**',
  'test/*/{recovery,docs,hosting,doctor,crontab,wording,spool,report,terminal,queue,config,monitor,repeat}/**',
  'test/*/{import,alert,move,worker,discovery,jobs,lock,clients}/**',
  'test/*/execution/mask-secrets.test.ts',
  'test/*/dashboard/!(access|web-upgrade).test.ts',
  'test/*/cli/!(cli|run-tier).test.ts',
  'test/*/store/{server,external-database,read-backup,watch-log}.test.ts',
];

const runs: Readonly<Record<string, Run>> = {
  'readme-root': {
    engines: 'sqlite',
    only: [
      'test/unit/config/{place,file-trust,state-folder}.test.ts',
      'test/{unit,command}/{discovery,crontab,execution,hosting,jobs,lock,process,spool}/*.test.ts',
      'test/processes/execution/{cures,measures,ends,handler-isolated,output,signs}.test.ts',
      'test/unit/store/{drivers,durability}.test.ts',
      'test/command/store/{broken-log,open-store}.test.ts',
      'test/processes/store/session.test.ts',
      'test/{command,unit}/cli/{cli,run-tier,mailed,names}.test.ts',
      'test/engines/{cli/run,checks/place}.test.ts',
      'test/processes/dashboard/web-upgrade.test.ts',
      'test/command/worker/{prune-log,run-tier,stop}.test.ts',
    ],
    workers: 4,
    why: 'What may differ for root: whose files and processes are, who may change them, where the log and locks lie.',
  },
  lengthy: {
    engines: 'sqlite',
    kinds: ['faults', 'browser', 'processes'],
    except: needMachine,
    workers: 4,
    env: { FAULT_POINTS: 'tenths' },
    why: 'What npm test has left out; what needs the machine, the stage integration runs.',
  },
  'faults-root': {
    ...asRoot,
    only: ['test/integration/faults/*.test.ts'],
    why: 'Full disks, other users, limits.',
  },
  machines: {
    ...asRoot,
    engines: 'postgres',
    kinds: ['machines*'],
    why: 'Network devices: not beside a browser, which breaks off what it loads when the machine gets one.',
  },
  'first-hour': { ...integration, only: [firstHour], workers: 1, why: 'It has a cron daemon and a mail program.' },
  integration: {
    ...integration,
    only: ['test/integration/*.test.ts', ...needMachine],
    except: [firstHour],
    workers: 3,
    why: 'It has another cron daemon; first-hour and faults-root run the rest.',
  },
  mariadb: {
    engines: 'mysql',
    except: ['test/engines/worker/links-model.test.ts'],
    workers: 2,
    why: 'All that is about a log. The long model of chains runs on SQLite and on PostgreSQL.',
  },
  'mariadb-fleet': fleet,
  postgres: {
    engines: 'postgres',
    except: ['test/engines/{conformance,store,cli}/**'],
    workers: 2,
    why: 'npm test has run conformance and store; commands call the same whatever the server, as MariaDB has shown.',
  },
  mysql: {
    engines: 'mysql',
    except: [
      'test/engines/{cli,alert,worker}/**',
      'test/engines/queue/{verbs-by-state,end-job,full-groups,memory-of-lists}.test.ts',
      'test/engines/queue/{add-jobs,bury-job,cancel-job,delete-job,kick-jobs,requeue-jobs,touch-job,update-job}.test.ts',
      'test/engines/queue/{known-options,open-queue,pauses,run-history,script-jobs}.test.ts',
      'test/engines/report/activity.test.ts',
      'test/engines/monitor/!(two-machines).test.ts',
      'test/engines/checks/!(plans).test.ts',
    ],
    workers: 2,
    why: 'Its statements are MariaDB’s, word for word: what locks, plans and competes goes by the server.',
  },
  'mysql-fleet': fleet,
  'node-22': {
    engines: 'sqlite',
    except: sameOnAnyNode,
    workers: 3,
    why: 'The oldest Node: they ran on Node 24, and drive what is the same on any.',
  },
  'node-26': {
    engines: 'sqlite',
    except: [
      ...sameOnAnyNode,
      'test/*/execution/{handler-!(replaced|values),signs,output-guard,environment,memory-limits}.test.ts',
      'test/*/{store,process}/**',
      'test/*/cli/cli.test.ts',
    ],
    workers: 1,
    why: 'The newest Node: the oldest one shows the rest.',
  },
};

const project = join(import.meta.dirname, '..');

function expand(patterns: readonly string[]): string[] {
  return patterns.flatMap((pattern) => {
    const files = globSync(pattern, { cwd: project, nodir: true }).filter((file) => file.endsWith('.test.ts'));
    if (files.length === 0) throw new Error(`.ci/matrix.ts: ${pattern} names no test`);
    return files.sort();
  });
}

function wordsOf({ engines, kinds = [], only = [], except = [], workers, env = {} }: Run): string[] {
  return [
    ...Object.entries({ TEST_ENGINES: engines, ...env }).map(([name, value]) => `${name}=${value}`),
    ...['node', 'node_modules/vitest/vitest.mjs', 'run', '--maxWorkers', String(workers)],
    ...kinds.map((kind) => `--project=${kind}`),
    ...expand(only),
    ...expand(except).map((file) => `--exclude=${file}`),
  ];
}

const [name = ''] = process.argv.slice(2);
if (name === '--check') {
  for (const run of Object.values(runs)) wordsOf(run);
} else {
  const run = runs[name];
  if (run === undefined) throw new Error(`.ci/matrix.ts: there is no run ${name}: ${Object.keys(runs).join(', ')}`);
  const { only, except = [], why } = run;
  if (only !== undefined) process.stderr.write(`ONLY in ${name}: ${only.join(' ')}\n`);
  if (except.length > 0) process.stderr.write(`NOT RUN in ${name}: ${except.join(' ')}\n`);
  process.stderr.write(`${name}: ${why}\n`);
  process.stdout.write(`${wordsOf(run).join('\n')}\n`);
}
