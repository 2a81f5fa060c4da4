import { join } from 'node:path';
import { checkPlace } from '../config/check-place.ts';
import { loadSettings } from '../config/load-settings.ts';
import { findRoot } from '../config/root.ts';
import { stateFolderOf } from '../config/state-folder.ts';
import type { Runner } from '../worker/runner.ts';
import type { CommandContext } from './command-context.ts';

/** Finds the root and reads its settings: what every command needs that runs scripts. */
export async function openRunner(
  context: CommandContext,
  rootOption: string | undefined,
): Promise<Runner> {
  const { cwd, env } = context;
  const root = findRoot({ option: rootOption, variable: env.RUNNER_ROOT, cwd });
  const state = stateFolderOf(root);
  const settings = await loadSettings(root, env);
  checkPlace(root, state, settings);
  return {
    root,
    state,
    settings,
    environment: env,
    probePath: join(context.distFolder, 'probe.cjs'),
    version: context.version,
    now: context.now,
  };
}
