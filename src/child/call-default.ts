import { createContext } from './create-context.ts';
import { findDefault } from './find-default.ts';
import type { JobContext } from './job-context.ts';
import { joinEntryPoint } from './join-entry-point.ts';
import type { ProbeOptions } from './probe-contract.ts';
import type { Unsettled } from './record-end.ts';

/**
 * Calls the script's default function once the script itself has been evaluated.
 *
 * @returns what was called and is still open
 */
export function callDefault(options: ProbeOptions): () => Unsettled | null {
  let open: Unsettled | null = null;
  joinEntryPoint(options.scriptPath, async (exported) => {
    const run = findDefault<JobContext>(exported);
    if (run === null) return;
    open = { sentence: "the promise of the script's default function never settled" };
    await run(createContext(options.context));
    open = null;
  });
  return () => open;
}
