import { existsSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { checkStateFolder } from '../../config/check-place.ts';
import { type Distrust, judgePath, judgeRoot } from '../../config/file-trust.ts';
import { describeServedState } from '../../config/served-place.ts';
import type { StateFolder } from '../../config/state-folder.ts';
import { findWebRoot } from '../../config/web-root.ts';
import { type Check, type Finding, note, ok, problem, warning } from './finding.ts';
import type { DoctorPlace } from './place.ts';
import { splitCure } from './split-cure.ts';

/** Of the scripts themselves `jobs` tells, of the settings' file `settings`. */
export const checkPermissions: Check = {
  name: 'permissions',
  run: async (place) => {
    const isAllowed = (await place.settings().catch(() => null))?.allowUnsafe ?? false;
    const findings = [
      ...findDistrust(place.root),
      ...judgeWebRoot(place),
      ...judgeOwnerOfState(place),
    ].map((finding) => (isAllowed ? allow(finding) : finding));
    const all = [...findings, ...judgeModeOfState(place)];
    return all.length > 0 ? all : [ok('only you can write the root, jobs and .runner')];
  },
};

/** What `allowUnsafe` allows is not refused, and no better for that. */
function allow({ found, cure }: Finding): Finding {
  return warning(`${found} (allowed by allowUnsafe)`, cure as string);
}

function findDistrust(root: string): Finding[] {
  return [judgeRoot(root), ...judgePath(root, join(root, 'jobs'))]
    .filter((distrust) => distrust !== null)
    .map((distrust) => describe(root, distrust));
}

function describe(root: string, { path, reason, cure }: Distrust): Finding {
  const name = relative(root, path);
  const shown = name === '' || name.startsWith('..') ? path : name;
  const [, sentence] = splitCure(`;${cure(shown)}`);
  return problem(`${shown} ${reason}, so no script is run`, sentence);
}

function judgeWebRoot({ root, state }: DoctorPlace): Finding[] {
  const webRoot = findWebRoot(root);
  if (webRoot === null) return judgeServedState(state);
  return [
    problem(
      `the root is inside ${webRoot}, which a web server probably hands out: scripts, output and passwords`,
      `Move the root beside ${webRoot}, not into it, then run \`runner cron --install\` there.`,
    ),
  ];
}

function judgeServedState(state: StateFolder): Finding[] {
  const found = describeServedState(state);
  return found === null ? [] : [problem(...splitCure(found))];
}

function judgeOwnerOfState({ root, state }: DoctorPlace): Finding[] {
  try {
    checkStateFolder(root, state);
    return [];
  } catch (error) {
    return [problem(...splitCure((error as Error).message))];
  }
}

/** What scripts print is in there. */
function judgeModeOfState({ state }: DoctorPlace): Finding[] {
  if (!existsSync(state.path)) return [];
  const mode = statSync(state.path).mode & 0o777;
  if ((mode & 0o077) === 0) return [];
  const octal = mode.toString(8).padStart(4, '0');
  return [
    note(
      `.runner is open to others (mode ${octal})`,
      'The next pass shuts it, or you with `chmod 700 .runner`.',
    ),
  ];
}
