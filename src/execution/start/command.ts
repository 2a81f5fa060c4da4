import { basename } from 'node:path';
import { type RunFacts, runVariables } from '../../child/contract.ts';
import type { Launch } from '../../discovery/script.ts';
import { machineName } from '../../system/process/identity.ts';
import { findOwnNode, findProgram } from '../../system/process/programs.ts';
import { defaultPath, userEnvironment } from '../../system/process/user-environment.ts';
import { countsFileOf } from '../result/counts.ts';
import type { RunFiles } from '../run-files.ts';
import type { StartRequest } from './request.ts';

/** The argument vector that runs a script: Node with the probe, or the script's interpreter. */
export function buildCommand(
  launch: Launch,
  scriptPath: string,
  node: { readonly heapLimitBytes: number | null; readonly probePath: string },
  args: readonly string[] = [],
): readonly [string, ...string[]] {
  if (launch.kind === 'program') return [...launch.command, ...args];
  return buildNodeCommand(node.heapLimitBytes, '--require', node.probePath, scriptPath, ...args);
}

/** By the Node that runs this; without a limit by V8's own. */
export function buildNodeCommand(
  heapLimitBytes: number | null,
  ...args: readonly string[]
): readonly [string, ...string[]] {
  const heap = heapLimitBytes === null ? [] : [`--max-old-space-size=${Math.ceil(heapLimitBytes / 1_048_576)}`];
  return [findOwnNode(), ...heap, ...args];
}

/** The interpreter that `#!/usr/bin/env name` asks for, when it is nowhere on the script's PATH. */
export function findMissingInterpreter(command: readonly string[], path: string | undefined): string | null {
  const [program, name] = command;
  if (program === undefined || name === undefined) return null;
  if (basename(program) !== 'env' || name.startsWith('-') || name.includes('/')) return null;
  return findProgram(name, path ?? '') === null ? name : null;
}

/** What a script gets of the runner's environment without asking by `@env`. */
const allowedNames = [
  'TZ',
  // Without it a script that adds jobs would add them to a log of its own.
  ...['RUNNER_DATABASE_URL', 'RUNNER_DATABASE_URL_FILE'],
];

/** What the environment of a run tells. */
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
 * Fixed, but for what the settings and `@env` name: a script behaves under cron as it did by hand, and never sees the
 * runner's secrets. There is no TMPDIR, as under cron: sockets, locks and notes of programs are found again by the
 * next run, by daemons, and by the site. The run's own folder is there for what is to go with it.
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

/** What is passed on of the runner's environment, and what the settings set. */
function chosenVariables({ environment, variables, script }: Variables): Record<string, string | undefined> {
  const asked = new Set(script.options.env ?? []);
  const passed = Object.entries(environment).filter(([name]) => allowedNames.includes(name) || asked.has(name));
  return { ...Object.fromEntries(passed), ...variables };
}

/** Where a script looks for programs. */
export function searchPathOf(request: Variables): string {
  return chosenVariables(request).PATH ?? defaultPath();
}

function factsOf(request: Described): RunFacts {
  const { key, startedAt, scheduledFor, job } = request;
  const own = { key, script: request.script.name };
  if (job !== undefined) return { ...job, ...own, job };
  return { ...request, ...own, latenessMs: startedAt - scheduledFor };
}
