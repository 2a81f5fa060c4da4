import { join } from 'node:path';
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
  return {
    root,
    state: stateFolderOf(root),
    settings: await loadSettings(root),
    environment: env,
    probePath: join(context.distFolder, 'probe.cjs'),
    version: context.version,
    now: context.now,
  };
}
