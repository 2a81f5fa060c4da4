import { UsageError } from '../../system/base/errors.ts';

/** Of a call that runs something: whether it is only to show what it would do. */
export interface DryRunOptions {
  readonly dryRun?: true;
  readonly json?: true;
}

/** @throws {UsageError} where JSON is asked for of a call that prints none */
export function asksForPlan({ dryRun, json }: DryRunOptions): boolean {
  if (json && !dryRun)
    throw new UsageError('--json needs --dry-run beside it; `npx folder-runner report --json` tells of runs.');
  return dryRun === true;
}
