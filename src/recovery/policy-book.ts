import { discover } from '../discovery/discover.ts';
import { openHandlers } from '../discovery/handlers.ts';
import { policyOf, type RetryPolicy } from '../queue/settle/retry-policy.ts';
import type { Runner } from '../settings/settings.ts';
import type { JobRow } from '../store/schema.ts';

/**
 * What scripts and handlers say of further tries, as their files are now. Each tier is read once, and only if it
 * is asked for; of a script that is gone, or whose folder cannot be read, nothing is known.
 */
export function createPolicyBook({
  root,
  settings,
}: Pick<Runner, 'root' | 'settings'>): (job: JobRow) => Promise<RetryPolicy> {
  const tiers = new Map<string, ReturnType<typeof discover>>();
  let handlers: ReturnType<typeof openHandlers> | null = null;
  const findScript = async ({ name, tier }: JobRow) => {
    if (tier === null) {
      handlers ??= openHandlers(root, settings);
      return (await handlers).find(name) ?? undefined;
    }
    const found = tiers.get(tier) ?? discover(root, settings, { tier });
    tiers.set(tier, found);
    const { tiers: known } = await found;
    return known.flatMap(({ scripts }) => scripts).find((script) => script.name === name);
  };
  return async (job) => policyOf((await findScript(job))?.options);
}
