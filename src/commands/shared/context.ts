import { join } from 'node:path';
import { checkPlace } from '../../settings/access.ts';
import { loadSettings } from '../../settings/load.ts';
import type { Runner } from '../../settings/settings.ts';
import { findRoot } from '../../system/place/root.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';

/** What a command gets of the world, so that a test can give it another one. */
export interface CommandContext {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** The folder of the built command and its probe. */
  readonly distFolder: string;
  /** This package's version. */
  readonly version: string;
  setExitCode(code: number): void;
  /** Told by a command that asks the log little: then it is opened by what loads sooner. */
  asksLittle(): void;
  /** What a call with these arguments would refuse in this root; null: nothing. Nothing is run. */
  findWrongUse(root: string, args: readonly string[]): Promise<string | null>;
}

/** What most commands take. */
export interface CommonOptions {
  readonly json?: true;
  readonly root?: string;
}

/** Finds the root and reads its settings: what every command needs that runs scripts. */
export async function openRunner(context: CommandContext, rootOption: string | undefined): Promise<Runner> {
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
