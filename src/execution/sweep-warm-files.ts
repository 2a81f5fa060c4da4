import { hostname } from 'node:os';
import { listNames } from '../config/list-names.ts';
import type { StateFolder } from '../config/state-folder.ts';
import { checkLiveness, identifyProcess } from '../process/process-identity.ts';
import { findChildProcess } from './find-run-process.ts';
import { ownerOf, removeWarmFiles } from './warm-files.ts';

/** Removes files of children that serve many runs, where neither their runner lives nor they do. */
export function sweepWarmFiles(root: string, state: StateFolder): void {
  const names = new Set([state.output, state.temporary].flatMap(listNames));
  for (const name of names) {
    if (isLeft(name) && findChildProcess(root, name) === null) removeWarmFiles(state, name);
  }
}

/** Whether it is of a runner that has died here; another host's cannot be seen from here. */
function isLeft(name: string): boolean {
  const owner = ownerOf(name);
  if (owner === null || owner.host !== hostname()) return false;
  const { bootId } = identifyProcess(owner.pid);
  return checkLiveness({ ...owner, bootId }) === 'dead';
}
