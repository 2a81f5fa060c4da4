import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cronPlace, startCommand } from '../../support/command.ts';
import { endOrphans } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** A root whose runner was killed while its script goes on, until there is a file `go`. */
export interface KilledRunner {
  readonly root: string;
  /** The script's process. */
  readonly pid: number;
}

/** Says that it runs, and ends when it is told to. */
const waits = `
  import { existsSync, writeFileSync } from 'node:fs';
  console.log('begun');
  writeFileSync('started', '');
  const timer = setInterval(() => existsSync('go') && clearInterval(timer), 10);
`;

/** Runs `hourly/waits` and kills its runner. */
export async function killRunner(files: Readonly<Record<string, FileContent>> = {}): Promise<KilledRunner> {
  const root = makeTemporaryRoot({ 'jobs/hourly/waits.mjs': waits, ...files });
  endOrphans(root);
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  const pidOf = (): number | null =>
    existsSync(join(root, 'started'))
      ? (queryLog<{ pid: number | null }>(root, 'select pid from runs')[0]?.pid ?? null)
      : null;
  await until('the script runs, and its process is in the log', () => pidOf() !== null);
  const pid = pidOf() as number;
  pass.kill('SIGKILL');
  await pass.ended;
  return { root, pid };
}
