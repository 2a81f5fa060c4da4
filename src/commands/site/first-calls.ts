import { tierNames } from '../../discovery/jobs-folder.ts';
import { readTierState } from '../../report/model/tier.ts';
import { createClock } from '../../report/text/clock.ts';
import type { CommandContext } from '../shared/context.ts';
import { crontabOf, withLogIfAny } from '../shared/open.ts';

/** If one line calls all tiers, prints the first call of each tier that was never called; it may be weeks ahead. */
export async function tellFirstCalls(context: CommandContext, root: string): Promise<void> {
  const crontab = await crontabOf(context, root)();
  if (crontab?.lines.some(({ calls }) => calls === 'due') !== true) return;
  const first = await withLogIfAny(context, root, async (site) => {
    const clock = createClock(site.nowMs);
    const times: string[] = [];
    for (const name of tierNames(root)) {
      const { lastPass, expected } = await readTierState(site, name, []);
      if (lastPass === null && expected !== null) times.push(`${name} ${clock.short(expected.atMs)}`);
    }
    return times;
  });
  if (first.length === 0) return;
  context.stdout.write(`Tiers that were never called begin with their next period: ${first.join(', ')}.\n`);
}
