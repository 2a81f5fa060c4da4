import { dirname } from 'node:path';
import { type RunFacts, runVariables } from '../child/run-variables.ts';
import { findOwnNode } from '../process/find-program.ts';
import type { RunFiles } from './run-files.ts';
import type { RunRequest } from './run-request.ts';

/** What a script gets of the runner's environment without asking by `@env`. */
const allowedNames = ['HOME', 'USER', 'LOGNAME', 'TZ', 'LANG', 'LANGUAGE'];
const isAllowed = (name: string): boolean => allowedNames.includes(name) || name.startsWith('LC_');

/**
 * Made from an allow-list, so that a script behaves under cron as it did by hand and never sees the
 * runner's secrets. PATH is fixed for the same reason; it starts with the folder of this Node.
 */
export function buildEnvironment(
  request: RunRequest,
  files: RunFiles,
): Record<string, string | undefined> {
  const { environment, script } = request;
  const asked = new Set(script.options.env ?? []);
  const passed = Object.entries(environment).filter(([name]) => isAllowed(name) || asked.has(name));
  return {
    PATH: defaultPath(),
    SHELL: '/bin/sh',
    TMPDIR: files.temporary,
    ...Object.fromEntries(passed),
    ...request.variables,
    RUNNER_ROOT: request.root,
    ...runVariables(factsOf(request)),
  };
}

function factsOf(request: RunRequest): RunFacts {
  const { runId, startedAt, scheduledFor, handler } = request;
  const own = { runId, script: request.script.name };
  if (handler !== undefined) return { ...handler.job, ...own, job: handler.job };
  return { ...request, ...own, latenessMs: startedAt - scheduledFor };
}

function defaultPath(): string {
  return [dirname(findOwnNode()), '/usr/local/bin', '/usr/bin', '/bin'].join(':');
}
