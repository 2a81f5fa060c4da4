import type { Script } from '../../discovery/script.ts';
import { countOf, listOf } from './amounts.ts';
import { type Check, type Finding, note, ok, problem, warning } from './finding.ts';

const SEE_LIST = '`runner list` says why for each of them, and what to do.';

export const checkJobs: Check = {
  name: 'jobs',
  run: async ({ discovery }) => {
    const { tiers } = await discovery();
    const scripts = tiers.flatMap((tier) => tier.scripts);
    const refused = scripts.filter(({ refusals }) => refusals.length > 0);
    const doubtful = scripts.filter(({ warnings }) => warnings.length > 0);
    return [
      describeCount(tiers.length, scripts.length),
      ...(refused.length === 0
        ? []
        : [problem(`${countOf(refused.length, 'script')} refused: ${namesOf(refused)}`, SEE_LIST)]),
      ...(doubtful.length === 0
        ? []
        : [warning(`probably a mistake in ${namesOf(doubtful)}`, SEE_LIST)]),
    ];
  },
};

function describeCount(tiers: number, scripts: number): Finding {
  const count = `${countOf(scripts, 'script')} in ${countOf(tiers, 'tier')}`;
  if (scripts > 0) return ok(count);
  return note(
    count,
    'Drop a script into jobs/hourly; `runner init` makes the folders with examples.',
  );
}

function namesOf(scripts: readonly Script[]): string {
  return listOf(scripts.map(({ name }) => name));
}
