import { join } from 'node:path';
import type { Runner } from '../settings/settings.ts';
import { UsageError } from '../system/base/errors.ts';
import { nearestName } from '../system/base/suggest.ts';
import { printableName } from '../system/base/values.ts';
import { discover } from './discover.ts';
import { QUEUE_TIER } from './place.ts';
import type { Script, Tier } from './script.ts';

type Place = Pick<Runner, 'root' | 'settings'>;

/** The tier with its scripts; a name that is none is wrong use, answered with the nearest. */
export async function findTier(runner: Place, name: string): Promise<Tier> {
  const { tiers, unread } = await discover(runner.root, runner.settings, { tier: name });
  for (const { reason } of unread) throw new UsageError(reason);
  return tiers[0] as Tier;
}

/** The script of that name, with its tier. */
export async function findScript(
  runner: Place,
  name: string,
): Promise<{ readonly tier: Tier; readonly script: Script }> {
  const [tierName = '', ...rest] = withoutJobsFolder(name).split('/');
  if (rest.length === 0) throw await withoutTier(runner, name);
  if (tierName === QUEUE_TIER) throw namesHandler(rest.join('/'));
  const tier = await findTier(runner, tierName);
  const script = tier.scripts.find((each) => each.name === name);
  if (script === undefined) throw unknownScript(runner.root, name, tier.scripts);
  return { tier, script };
}

function namesHandler(word: string): UsageError {
  const job = printableName(word);
  return new UsageError(
    `Files in jobs/queue are handlers of jobs: \`runner add ${job}\` adds a job, \`runner work ${job}\` processes it.`,
  );
}

async function withoutTier(runner: Place, label: string): Promise<UsageError> {
  const { tiers } = await discover(runner.root, runner.settings);
  const names = tiers.flatMap(({ scripts }) => scripts.map(({ name }) => name));
  const meant = names.filter((name) => name.endsWith(`/${label}`));
  const guess = meant.length === 0 ? 'such as hourly/clean-tmp' : `here ${meant.join(' or ')}`;
  return new UsageError(`A script is named <tier>/<script>, ${guess}, not ${JSON.stringify(label)}.`);
}

/** As a shell completes it: `jobs/hourly/clean-tmp.sh`. */
function withoutJobsFolder(name: string): string {
  return name.replace(/^(?:\.\/)?jobs\/(?=.*\/)/, '');
}

function unknownScript(root: string, name: string, scripts: readonly Script[]): UsageError {
  const file = join(root, 'jobs', withoutJobsFolder(name));
  const names = scripts.map((script) => script.name);
  const nearest = scripts.find(({ path }) => path === file)?.name ?? nearestName(name, names);
  const guess = nearest === null ? '.' : `; did you mean ${nearest}?`;
  return new UsageError(
    `There is no script ${JSON.stringify(name)} in ${root}/jobs${guess} ` +
      '`runner list` shows all scripts, and ignored files with the reason.',
  );
}
