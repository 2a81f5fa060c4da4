import type { LoggedRun } from '../log/log-tables.ts';
import { queryLog } from '../log/open-log.ts';
import { type FileContent, makeTemporaryRoot } from '../places/temporary-root.ts';
import { type Ended, runCommand } from './run-command.ts';

/** A pass that has ended, and what the log says of its runs. */
export interface Pass extends Ended {
  readonly root: string;
  readonly runs: readonly LoggedRun[];
  /** The newest run of `hourly/<label>`. */
  run(label: string): LoggedRun;
}

/** Makes a root of these files of `jobs/hourly` and runs the tier once, in cron's bare environment. */
export function runPass(
  scripts: Readonly<Record<string, FileContent>>,
  { env = {}, files = {} }: PassOptions = {},
): Pass {
  const inTier = Object.entries(scripts).map(([name, file]) => [`jobs/hourly/${name}`, file]);
  return runPassAgain(makeTemporaryRoot({ ...files, ...Object.fromEntries(inTier) }), env);
}

export interface PassOptions {
  /** On top of cron's. */
  readonly env?: NodeJS.ProcessEnv;
  /** Files of the root that are no scripts of the tier. */
  readonly files?: Readonly<Record<string, FileContent>>;
}

export function runPassAgain(root: string, env: NodeJS.ProcessEnv = {}): Pass {
  const ended = runCommand(['--root', root, 'hourly'], { cwd: '/', env: { ...cronEnv(root), ...env } });
  return { ...ended, root, ...readRuns(root) };
}

/** What cron gives a command, with a home of its own. */
export function cronEnv(home: string): NodeJS.ProcessEnv {
  return { HOME: home, LOGNAME: 'visitor', PATH: '/usr/bin:/bin', SHELL: '/bin/sh' };
}

export function readRuns(root: string): Pick<Pass, 'runs' | 'run'> {
  const runs = queryLog<LoggedRun>(root, 'select * from runs order by id');
  const run = (label: string): LoggedRun => {
    const found = runs.findLast(({ script }) => script === `hourly/${label}`);
    if (found === undefined) throw new Error(`There is no run of hourly/${label}.`);
    return found;
  };
  return { runs, run };
}
