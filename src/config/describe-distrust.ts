import { relative } from 'node:path';
import { type Distrust, OVERRIDE_VARIABLE } from './file-trust.ts';

/** How a message ends about what settings cannot allow, as they are not to be trusted or not read. */
export const orAllowOutside = `or allow it with ${OVERRIDE_VARIABLE}=1 in the environment`;

/** How a message ends about what is refused unless it is forced. */
export const orAllow = `or allow it with allowUnsafe: true in runner.config.* or ${OVERRIDE_VARIABLE}=1 in the environment`;

/** One sentence: what, where, whose, and the cure; paths below the root as seen from there. */
export function describeDistrust(root: string, distrust: Distrust, orElse = orAllow): string {
  const name = nameWithin(root, distrust.path);
  return `${name} ${distrust.reason}; ${distrust.cure(name)}, ${orElse}`;
}

function nameWithin(root: string, path: string): string {
  const name = relative(root, path);
  return name === '' || name.startsWith('..') ? path : name;
}
