import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import type { LogContent, RunProcess } from './invariants-log.ts';

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
