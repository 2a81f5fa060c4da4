import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { checkLiveness } from '../../../src/system/process/identity.ts';
import type { LoggedActivity, LoggedJob, LoggedRun, LoggedWorker } from '../engines/engine.ts';
import { engine, type LogConnection } from '../engines/engines.ts';
import { lookIntoLog } from '../log.ts';

/** Everything that a root's log says, read at once. */
export interface LogContent {
  readonly workers: readonly LoggedWorker[];
  readonly jobs: readonly LoggedJob[];
  readonly runs: readonly LoggedRun[];
  readonly activity: readonly LoggedActivity[];
  /** What the engine itself finds wrong. */
  readonly damage: readonly string[];
}

/** Null where there is nothing to be read: no log, none with tables, or a broken one. */
export function readLog(root: string): LogContent | null {
  if (!engine.hasTables(root)) return null;
  return lookIntoLog(root, readContent);
}

export function readContent(log: LogConnection): LogContent {
  return {
    workers: log.all('select * from workers order by id'),
    jobs: log.all('select * from jobs order by id'),
    runs: log.all('select * from runs order by id'),
    activity: log.all('select * from activity order by id'),
    damage: engine.findDamage(log),
  };
}

/** Whether anything is still to be done by the next pass, or being done. */
export function listOpenJobs({ jobs }: LogContent): readonly LoggedJob[] {
  return jobs.filter(({ finished_at }) => finished_at === null);
}

/** Of scripts; those of the queue have rules of their own. */
export function checkJobs(log: LogContent): string[] {
  const jobs = log.jobs.filter(({ tier }) => tier !== null);
  const open = listOpenJobs({ ...log, jobs }).map(({ name }) => name);
  const doubled = open.filter((name, index) => open.indexOf(name) !== index);
  return [
    ...doubled.map((name) => `${name} has two open jobs`),
    ...jobs.flatMap((job) =>
      checkJob(
        job,
        log.runs.filter((run) => run.job_id === job.id),
      ).map((wrong) => `job ${job.id} (${job.name}, ${job.state}): ${wrong}`),
    ),
  ];
}

const endStates: readonly string[] = ['finished', 'failed', 'cancelled'];

/** A script has one row for good: its last runs tell of the round that it is in. */
function checkJob(job: LoggedJob, runs: readonly LoggedRun[]): string[] {
  const ended = runs.filter(({ outcome }) => outcome !== 'running');
  const last = ended.at(-1);
  const isEnded = endStates.includes(job.state);
  const isHeld = job.state === 'running' || job.state === 'claimed';
  const running = runs.length - ended.length;
  return listWrong([
    [isEnded === (job.finished_at !== null), 'state and finished_at disagree'],
    [isHeld === (job.claim_token !== null), 'state and claim disagree'],
    [running === (job.state === 'running' ? 1 : 0), `${running} runs are running`],
    [job.state !== 'finished' || last?.outcome === 'succeeded', `last run: ${last?.outcome}`],
    [job.state !== 'failed' || isFailure(last), `last run: ${last?.outcome}`],
    [job.state !== 'retrying' || isFailure(last) || isGivenBack(last), `last run: ${last?.outcome}`],
    [job.state !== 'retrying' || last?.left_job === 'retrying', 'its last run was its last try'],
    [isHeld || isEnded || job.attempts === triesOf(job, last), `${job.attempts} attempts`],
    [job.state !== 'queued' || job.attempts === 0, 'it has been run'],
    [runs.every((run) => run.outcome !== 'released' || isGivenBack(run)), 'only jobs of the queue are given back'],
    ...runs.map((run, index): readonly [boolean, string] => [
      run.spool_id !== null || run.attempt === nextAttempt(runs[index - 1]),
      `run ${run.id} is attempt ${run.attempt}`,
    ]),
  ]);
}

function triesOf({ state }: LoggedJob, last: LoggedRun | undefined): number {
  return state === 'retrying' && !isGivenBack(last) ? (last?.attempt ?? 0) : 0;
}

/** Only a try that is to be followed by another is. */
function nextAttempt(before: LoggedRun | undefined): number {
  if (isGivenBack(before)) return before?.attempt ?? 1;
  return before?.left_job === 'retrying' ? before.attempt + 1 : 1;
}

/** A script that could not begin, as its runner was replaced. */
function isGivenBack(run: LoggedRun | undefined): boolean {
  return run?.outcome === 'released' && /changed during this pass; the next pass continues$/.test(run.reason ?? '');
}

const isFailure = (run: LoggedRun | undefined): boolean =>
  run !== undefined && !['running', 'succeeded', 'released'].includes(run.outcome);

/** @param hasClockMoved whether instants may go backwards */
export function checkRuns({ runs, jobs, workers }: LogContent, hasClockMoved: boolean): string[] {
  const ofScripts = runs.filter(({ tier }) => tier !== 'queue');
  const names = new Set(ofScripts.map(({ script }) => script));
  return [
    ...runs.flatMap((run) =>
      listWrong([
        [(run.outcome === 'running') === (run.finished_at === null), 'outcome, but no end'],
        [(run.duration_us ?? 0) >= 0, `lasted ${run.duration_us} µs`],
        [jobs.some(({ id }) => id === run.job_id), 'has no job'],
        [hasWorker(run, workers), 'has no worker'],
        [
          (run.outcome === 'succeeded') === (run.reason === null) || run.outcome === 'running',
          `succeeded because of ${run.reason}`,
        ],
        [run.outcome !== 'succeeded' || isGoodCode(run), `exit code ${run.exit_code}`],
        [hasClockMoved || run.finished_at === null || run.finished_at >= run.started_at, 'ended before it started'],
      ]).map((wrong) => `run ${run.id} (${run.script}, ${run.outcome}): ${wrong}`),
    ),
    ...(hasClockMoved ? [] : [...names].flatMap((name) => findOverlap(name, ofScripts))),
  ];
}

/** Who claims a job of the queue may be no worker of the runner. */
function hasWorker({ tier, worker_id }: LoggedRun, workers: readonly LoggedWorker[]): boolean {
  return worker_id === null ? tier === 'queue' : workers.some(({ id }) => id === worker_id);
}

/** A handler whose process serves further jobs has none. */
function isGoodCode({ tier, exit_code }: LoggedRun): boolean {
  return exit_code === 0 || (tier === 'queue' && exit_code === null);
}

function findOverlap(script: string, runs: readonly LoggedRun[]): string[] {
  const own = runs.filter((run) => run.script === script);
  return own.slice(1).flatMap((run, index) => {
    const before = own[index] as LoggedRun;
    const isAfter = before.finished_at !== null && before.finished_at <= run.started_at;
    return isAfter ? [] : [`runs ${before.id} and ${run.id} of ${script} overlap`];
  });
}

/** @param isSettled whether somebody has looked since anything died: then nothing dead is at work */
export function checkWorkers({ workers, runs }: LogContent, isSettled: boolean): string[] {
  const isAlive = (worker: LoggedWorker): boolean =>
    checkLiveness({
      host: worker.host,
      bootId: worker.boot_id,
      pid: worker.pid,
      startTicks: worker.pid_start_ticks,
    }) !== 'dead';
  return workers.flatMap((worker) =>
    listWrong([
      [(worker.state === 'running') === (worker.finished_at === null), 'state without its end'],
      [!isSettled || worker.state !== 'running' || isAlive(worker), 'its process is gone'],
      [worker.state !== 'skipped' || !runs.some((run) => run.worker_id === worker.id), 'has runs'],
    ]).map((wrong) => `worker ${worker.id} (${worker.tier}, ${worker.state}): ${wrong}`),
  );
}

/** A run that goes on has a process, or at least a worker that is about to start it. */
export function checkRunning({ runs, workers }: LogContent, processes: readonly RunProcess[]): string[] {
  const running = runs.filter(({ outcome }) => outcome === 'running');
  return running.flatMap((run) => {
    const worker = workers.find(({ id }) => id === run.worker_id);
    const isElsewhere = worker?.host !== hostname();
    const hasProcess = processes.some(({ key, pid }) => key === run.key || pid === run.pid);
    const isKnown = isElsewhere || hasProcess || worker?.state === 'running';
    return isKnown ? [] : [`run ${run.id} (${run.script}) is running without a process`];
  });
}

/** A process that a run of the root has started, or is. */
export interface RunProcess {
  readonly pid: number;
  readonly key: string;
  readonly script: string;
}

/** What of this must hold and does not. */
export function listWrong(claims: readonly (readonly [boolean, string])[]): string[] {
  return claims.flatMap(([holds, wrong]) => (holds ? [] : [wrong]));
}

/** Every process that has this root in its environment: its scripts, and what these have started. */
export function listRunProcesses(root: string): readonly RunProcess[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const ofRoot = `RUNNER_ROOT=${root}\0`;
  return pids.flatMap((pid) => {
    const environment = readEnvironment(pid);
    if (!environment.includes(ofRoot)) return [];
    const variables = parseVariables(environment);
    const key = variables.get('RUNNER_RUN') ?? '';
    return { pid: Number(pid), key, script: variables.get('RUNNER_SCRIPT') ?? '' };
  });
}

/** Empty of one that is gone, or dead and not yet asked for its end. */
function readEnvironment(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    return '';
  }
}

function parseVariables(environment: string): ReadonlyMap<string, string> {
  const variables = environment.split('\0');
  return new Map(variables.map((text) => text.split(/=(.*)/s, 2) as [string, string]));
}

/** What lies in the state folder of a root that nobody works in. */
export function checkFiles(root: string, log: LogContent | null): string[] {
  const state = stateFolderOf(root);
  const held = new Set(log?.jobs.flatMap(({ claim_token }) => claim_token ?? []));
  const kept = new Set(log?.runs.map(({ output_file }) => output_file));
  const isOfRunning = (name: string): boolean => held.has(/^\d+\.\d+/.exec(name)?.[0] ?? '');
  const left = [
    ...listFolder(state.path).filter((name) => !isKnown(name)),
    ...listFolder(state.locks),
    ...listFolder(state.spool),
    ...listFolder(state.temporary).filter((name) => !isOfRunning(name)),
    ...listFolder(state.results).filter((name) => !isOfRunning(name)),
    ...listFolder(state.output).filter((name) => !isOfRunning(name) && !kept.has(name)),
  ];
  const missing = [...kept].filter((name) => name !== null && !existsSync(join(state.output, name)));
  return [
    ...left.map((name) => `${name} is left over`),
    ...missing.map((name) => `the log promises the output ${name}, and it is gone`),
  ];
}

/** What the state folder itself may hold for good. */
function isKnown(name: string): boolean {
  const folders = ['locks', 'output', 'results', 'cache', 'tmp', 'spool'];
  const files = ['activity.db', 'activity.lock', 'reserve', 'web.sock', '.gitignore'];
  // What stands beside a database is SQLite’s own business.
  const isOfDatabase = /^activity\.(db(-wal|-shm|-journal|\.broken-.+)|lock-journal)$/.test(name);
  return folders.includes(name) || files.includes(name) || isOfDatabase;
}

function listFolder(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
