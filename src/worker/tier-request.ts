import type { Script, Tier } from '../discovery/script.ts';
import type { WorkerKind } from '../store/schema.ts';

/** What is to be run of a tier. */
export interface TierRequest {
  readonly kind: WorkerKind;
  readonly tier: Tier;
  /** Those that get a job if they have none that is open: all of the tier, one of it, or none. */
  readonly scripts: readonly Script[];
}
