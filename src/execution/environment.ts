import { dirname } from 'node:path';
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
    RUNNER_RUN: String(request.runId),
    RUNNER_SCRIPT: script.name,
    RUNNER_SCHEDULED_FOR: new Date(request.scheduledFor).toISOString(),
    RUNNER_LATENESS_MS: String(request.startedAt - request.scheduledFor),
    RUNNER_ATTEMPT: String(request.attempt),
    RUNNER_LAST_SUCCESS:
      request.lastSuccess === null ? '' : new Date(request.lastSuccess).toISOString(),
    RUNNER_PREVIOUSLY_CRASHED: request.previouslyCrashed ? '1' : '',
  };
}

function defaultPath(): string {
  return [dirname(findOwnNode()), '/usr/local/bin', '/usr/bin', '/bin'].join(':');
}
