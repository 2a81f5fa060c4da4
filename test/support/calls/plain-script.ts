import type { Script } from '../../../src/discovery/script.ts';
import type { ScriptOptions } from '../../../src/settings/settings.ts';

/** A script as discovery finds it, for tests that never start it. */
export function makeScript(name: string, options: ScriptOptions = {}): Script {
  return {
    name,
    tier: name.slice(0, name.indexOf('/')),
    path: `/nowhere/jobs/${name}.sh`,
    launch: { kind: 'program', command: [`/nowhere/jobs/${name}.sh`] },
    options,
    contentHash: 'ab'.repeat(32),
    refusals: [],
    warnings: [],
  };
}
