import { existsSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { ReadCrontab } from '../../schedule/crontab-times.ts';
import { keepRulesAt } from '../../schedule/repeat/place.ts';
import { checkPlace } from '../../settings/access.ts';
import { loadWithFiles } from '../../settings/load.ts';
import type { Runner } from '../../settings/settings.ts';
import { PackageIncomplete, UsageError } from '../../system/base/errors.ts';
import { once } from '../../system/base/values.ts';
import { enterZone } from '../../system/base/zone.ts';
import { becomeOwner, describeOwner, findOtherOwner } from '../../system/place/owner.ts';
import { findRoot } from '../../system/place/root.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';

/** The world of a command; a test can pass another one. */
export interface CommandContext {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** State of the caller that this process has replaced at its start. */
  readonly caller: { readonly umask: number; readonly zone: string | undefined };
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** The folder of the built command and its probe. */
  readonly distFolder: string;
  /** This package's version. */
  readonly version: string;
  setExitCode(code: number): void;
  /** Called by commands with few queries: the log is then opened with the driver that loads faster. */
  asksLittle(): void;
  /** Why a call with these arguments would be refused in this root; null: it is accepted. Runs nothing. */
  findWrongUse(root: string, args: readonly string[]): Promise<string | null>;
}

/**
 * Root acts in another user's site only where it may, and then it becomes that user: what root itself makes there
 * would shut the owner out, and the owner's links would decide where it is made.
 *
 * @throws {UsageError} where it may not
 */
export function enterSite(context: CommandContext, root: string, mayAct: boolean): void {
  const owner = findOtherOwner(root);
  if (owner === null) return;
  if (!mayAct) throw new UsageError(`${describeOwner(owner)}, or add --as-root to do it with that user's rights`);
  becomeOwner(owner, [process.execPath, probePathOf(context)]);
}

/** Finds the root and reads its settings: what every command needs that runs scripts. */
export async function openRunner(context: CommandContext, rootOption: string | undefined): Promise<Runner> {
  const { cwd, env } = context;
  const named = findRoot({ option: rootOption, variable: env.RUNNER_ROOT, cwd });
  // A link that leads to another release meanwhile changes nothing for what has begun.
  const root = realpathSync.native(named);
  enterSite(context, root, false);
  const state = stateFolderOf(root, env);
  const probePath = probePathOf(context);
  if (!existsSync(probePath)) throw new PackageIncomplete(`${probePath} is missing`);
  const settings = await loadWithFiles(root, env);
  enterZone(settings.timezone);
  keepRulesAt({ root, allowUnsafe: settings.allowUnsafe });
  checkPlace(root, state, settings);
  process.umask(settings.umask);
  if (existsSync(state.unsettledImport)) await finishImport(context, root);
  await keepScript(context, named);
  return {
    root,
    state,
    settings,
    environment: env,
    probePath,
    version: context.version,
    now: context.now,
  };
}

/** The crontab's script has called this: of another version, or without knowing what it has found now. */
async function keepScript({ env, version, distFolder }: CommandContext, root: string): Promise<void> {
  const { RUNNER_CRON_SCRIPT: path, RUNNER_CRON_VERSION } = env;
  if (path === undefined || RUNNER_CRON_VERSION === version) return;
  const { refreshScript } = await import('../../hosting/crontab/script.ts');
  refreshScript(path, root, { distFolder, version });
}

/** An import of the crontab was interrupted, or is under way at this moment. */
async function finishImport({ env, stderr }: CommandContext, root: string): Promise<void> {
  const { settleImport } = await import('../../hosting/crontab/import/apply.ts');
  try {
    settleImport(root, env, false);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    stderr.write(`runner: an import of your crontab was interrupted, and cannot be finished here: ${error.message}\n`);
  }
}

function probePathOf({ distFolder, version }: CommandContext): string {
  return join(distFolder, `probe-${version}.cjs`);
}

/** When the crontab calls the tiers of this root: read when it is first asked for, and once. */
export function crontabOf({ env }: CommandContext, root: string): ReadCrontab {
  return once(async () => (await import('../../checks/host/crontab-calls.ts')).readCrontabTimes(root, env));
}
