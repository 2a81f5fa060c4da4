import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandPath, cronEnv, type Ended, inRoot, type Place } from './command.ts';
import { engine } from './engines/engines.ts';
import { watchLog } from './log.ts';
import { makeTemporaryRoot } from './root.ts';

/** With a log that nothing has run in. */
export async function makeSite(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', ...files });
  await inRoot(root, 'pause', 'hourly');
  await inRoot(root, 'resume');
  watchLog(root);
  return root;
}

/** A call by cron from a folder of its own, whose output is cron's to mail: both streams lead to one file. */
export function exec(root: string, words: readonly string[], { env = {}, ...place }: Partial<Place> = {}): Ended {
  const mail = join(root, `mail-${Math.random()}`);
  const { status } = spawnSync(
    '/bin/sh',
    [
      '-c',
      `exec "$0" "$@" 2>&1 | cat >'${mail}'; exit $(cat '${mail}.status')`,
      '/bin/sh',
      '-c',
      `"$0" "$@"; echo $? >'${mail}.status'`,
    ].concat([process.execPath, commandPath, '--root', root, 'exec'], words),
    {
      ...{ cwd: root, encoding: 'utf8', timeout: 60_000, input: '', ...place },
      env: { ...cronEnv(root), RUNNER_CALLED_BY: 'cron', ...engine.environment(), ...env },
    },
  );
  return { status, stdout: readFileSync(mail, 'utf8'), stderr: '' };
}

export const sh = (script: string): string[] => ['--', '/bin/sh', '-c', script];
