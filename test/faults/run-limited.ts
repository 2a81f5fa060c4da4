import { chownSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'glob';
import type { RunEnd } from '../../src/execution/result/result.ts';
import type { RunRequest } from '../../src/execution/start/process.ts';
import { startProcess } from '../support/command.ts';
import type { FileContent } from '../support/root.ts';
import { requestRun } from '../support/run.ts';

const child = join(import.meta.dirname, 'limits.child.ts');

export interface Limited {
  /** For `prlimit`: `--as=1000000000`. */
  readonly limits: string;
  readonly request?: Partial<RunRequest>;
  /** Who runs it; null: who runs the test. */
  readonly uid?: number | null;
  /** Called when the runner is about to be started. */
  readonly onRequest?: (request: RunRequest) => void;
}

/** Runs a script in a process that has these limits, as `ulimit` sets them. */
export async function runLimited(
  name: string,
  content: FileContent,
  { limits, request = {}, uid = null, onRequest = () => {} }: Limited,
): Promise<RunEnd> {
  const full = await requestRun(name, content, request);
  onRequest(full);
  const args = [child, limits, JSON.stringify(full)];
  const place = { cwd: '/', env: { PATH: '/usr/bin:/bin' } };
  if (uid !== null) giveTo(uid, full.root);
  const { stdout, stderr } = await startProcess(process.execPath, args, {
    ...place,
    ...(uid === null ? {} : { uid, gid: uid }),
  }).ended;
  if (stdout === '') throw new Error(`The runner itself failed: ${stderr}`);
  return JSON.parse(stdout);
}

export function giveTo(uid: number, root: string): void {
  for (const path of globSync('{.,**}', { cwd: root, dot: true })) {
    chownSync(join(root, path), uid, uid);
  }
}
