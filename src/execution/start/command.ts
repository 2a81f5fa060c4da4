import { basename } from 'node:path';
import { type RunFacts, runVariables } from '../../child/contract.ts';
import type { Launch } from '../../discovery/script.ts';
import { machineName } from '../../system/process/identity.ts';
import { findOwnNode, findProgram } from '../../system/process/programs.ts';
import { defaultPath, userEnvironment } from '../../system/process/user-environment.ts';
import { countsFileOf } from '../result/counts.ts';
import type { RunFiles } from '../run-files.ts';
import type { StartRequest } from './request.ts';

/** The arguments that run a script: Node with the probe, or the script's interpreter. */
export function buildCommand(
  launch: Launch,
  scriptPath: string,
  node: { readonly heapLimitBytes: number | null; readonly probePath: string },
  args: readonly string[] = [],
): readonly [string, ...string[]] {
  if (launch.kind === 'program') return [...launch.command, ...args];
  return buildNodeCommand(node.heapLimitBytes, '--require', node.probePath, scriptPath, ...args);
}

/** Uses the Node that runs this process. Without a limit V8's own applies. */
export function buildNodeCommand(
  heapLimitBytes: number | null,
  ...args: readonly string[]
): readonly [string, ...string[]] {
  const heap = heapLimitBytes === null ? [] : [`--max-old-space-size=${Math.ceil(heapLimitBytes / 1_048_576)}`];
  return [findOwnNode(), ...heap, ...args];
}

/** The interpreter that `#!/usr/bin/env name` asks for, if it is nowhere on the script's PATH. */
export function findMissingInterpreter(command: readonly string[], path: string | undefined): string | null {
  const [program, name] = command;
  if (program === undefined || name === undefined) return null;
  if (basename(program) !== 'env' || name.startsWith('-') || name.includes('/')) return null;
  return findProgram(name, path ?? '') === null ? name : null;
}

/** Variables of the runner's environment that a script gets without `@env`. */
const allowedNames = [
  'TZ',
  // Without them a script that adds jobs would add them to another log.
  ...['RUNNER_DATABASE_URL', 'RUNNER_DATABASE_URL_FILE'],
];

/** The fields that the environment of a run depends on. */
type Described = Pick<
  StartRequest,
  | 'key'
  | 'script'
  | 'root'
  | 'environment'
  | 'variables'
  | 'attempt'
  | 'scheduledFor'
  | 'startedAt'
  | 'lastSuccess'
  | 'previouslyCrashed'
  | 'job'
>;

/**
 * The environment is fixed, except for variables named by the settings and `@env`: a script behaves under cron as by
 * hand and never sees the runner's secrets. As under cron there is no TMPDIR: sockets, locks and notes of programs must
 * be found again by the next run, by daemons, and by the site. Files that should disappear with the run go to the run's
 * own folder.
 */
export function buildEnvironment(request: Described, files: RunFiles): Record<string, string | undefined> {
  return {
    ...userEnvironment(request.environment),
    ...chosenVariables(request),
    RUNNER_TMPDIR: files.temporary,
    RUNNER_COUNTS: countsFileOf(files),
    RUNNER_ROOT: request.root,
    RUNNER_HOST: machineName(),
    ...runVariables(factsOf(request)),
  };
}

type Variables = Pick<StartRequest, 'environment' | 'variables' | 'script'>;

/** The variables passed on from the runner's environment, and those of the settings. */
function chosenVariables({ environment, variables, script }: Variables): Record<string, string | undefined> {
  const asked = new Set(script.options.env ?? []);
  const passed = Object.entries(environment).filter(([name]) => allowedNames.includes(name) || asked.has(name));
  return { ...Object.fromEntries(passed), ...variables };
}

/** The PATH on which a script finds programs. */
export function searchPathOf(request: Variables): string {
  return chosenVariables(request).PATH ?? defaultPath();
}

function factsOf(request: Described): RunFacts {
  const { key, startedAt, scheduledFor, job } = request;
  const own = { key, script: request.script.name };
  if (job !== undefined) return { ...job, ...own, job };
  return { ...request, ...own, latenessMs: startedAt - scheduledFor };
}
