import { type Ended, runCommand } from '../calls/run-command.ts';
import { cronEnv } from '../calls/run-pass.ts';
import { executable, makeTemporaryRoot } from '../places/temporary-root.ts';

/** A root with a tier and two handlers. */
export function makeQueueSite(): string {
  return makeTemporaryRoot({
    'jobs/hourly/clean.sh': executable('#!/bin/sh\necho clean\n'),
    'jobs/queue/mail/welcome.mjs': 'export default () => ({ sent: true });\n',
    'jobs/queue/export.sh': executable('#!/bin/sh\necho done\n'),
  });
}

/** The built command in a root, with something on its stdin. */
export function withInput(root: string, input: string, ...args: readonly string[]): Ended {
  const env = { ...cronEnv(root), TZ: 'UTC', COLUMNS: '110' };
  return runCommand(args, { cwd: root, env, input });
}

/** What a command prints as JSON. */
export function jsonOf({ stdout }: Ended) {
  return JSON.parse(stdout);
}
