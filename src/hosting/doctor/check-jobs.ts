import type { Script } from '../../discovery/script.ts';
import { countOf, listOf } from './amounts.ts';
import { type Check, type Finding, note, ok, problem, warning } from './finding.ts';

const SEE_LIST = '`runner list` says why for each of them, and what to do.';

export const checkJobs: Check = {
  name: 'jobs',
  run: async ({ discovery }) => {
    const { tiers, unread, handlers } = await discovery();
    const scripts = tiers.flatMap((tier) => tier.scripts);
    const all = [...scripts, ...handlers];
    const refused = all.filter(({ refusals }) => refusals.length > 0);
    const doubtful = all.filter(({ warnings }) => warnings.length > 0);
    return [
      describeCount(tiers.length, scripts.length, handlers.length),
      ...unread.map(({ reason }) => problem(reason, 'Until then nothing in it is run.')),
      ...(refused.length === 0
        ? []
        : [problem(`${countOf(refused.length, 'script')} refused: ${namesOf(refused)}`, SEE_LIST)]),
      ...(doubtful.length === 0
        ? []
        : [warning(`probably a mistake in ${namesOf(doubtful)}`, SEE_LIST)]),
    ];
  },
};

function describeCount(tiers: number, scripts: number, handlers: number): Finding {
  const ofQueue = handlers > 0 ? `, ${countOf(handlers, 'handler')} of queued jobs` : '';
  const count = `${countOf(scripts, 'script')} in ${countOf(tiers, 'tier')}${ofQueue}`;
  if (scripts + handlers > 0) return ok(count);
  return note(
    count,
    'Drop a script into jobs/hourly; `runner init` makes the folders with examples.',
  );
}

function namesOf(scripts: readonly Script[]): string {
  return listOf(scripts.map(({ name }) => name));
}
