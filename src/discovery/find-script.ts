import type { Runner } from '../settings/settings.ts';
import { UsageError } from '../system/base/errors.ts';
import { nearestName } from '../system/base/suggest.ts';
import { printableName, shellWord } from '../system/base/values.ts';
import { discover, findTier } from './discover.ts';
import { QUEUE_TIER } from './place.ts';
import { describeHosts, type Script, type Tier } from './script.ts';
import { scriptNameOf } from './script-name.ts';

type Place = Pick<Runner, 'root' | 'settings'>;

/** Where a file may be named from. */
type PlaceOfCall = Place & { readonly cwd?: string };

interface Found {
  readonly tier: Tier;
  readonly script: Script;
}

/** The script of that name, or file, with its tier; without the tier's name where only one has such a script. */
export async function findScript(runner: PlaceOfCall, word: string): Promise<Found> {
  const name = scriptNameOf(word, { cwd: runner.root, ...runner });
  const [tierName = '', ...rest] = name.split('/');
  if (rest.length === 0) return await findByShortName(runner, name);
  if (tierName === QUEUE_TIER) throw namesHandler(rest.join('/'));
  const tier = await findTier(runner, tierName);
  const script = tier.scripts.find((each) => each.name === name);
  const other = tier.elsewhere?.find((each) => each.name === name);
  if (script === undefined && other !== undefined) {
    throw new UsageError(`${name} ${describeHosts(other)}. To run it here, change its tag or setting \`host\`.`);
  }
  if (script === undefined) await refuseDisabled(runner.root, name);
  if (script === undefined) throw unknownScript(runner.root, name, tier.scripts);
  return { tier, script };
}

/** By its whole name, or by that within its tier. */
async function refuseDisabled(root: string, word: string): Promise<void> {
  const { findDisabled } = await import('./disabled.ts');
  const found = findDisabled(root).find(({ name, tier }) => name === word || name === `${tier}/${word}`);
  if (found === undefined) return;
  throw new UsageError(`${found.name} is disabled: \`npx folder-runner enable ${shellWord(found.name)}\` ends that.`);
}

function namesHandler(word: string): UsageError {
  const job = printableName(word);
  return new UsageError(
    `Files in jobs/queue are handlers of jobs: \`npx folder-runner add ${job}\` adds a job, \`npx folder-runner work ${job}\` processes it.`,
  );
}

async function findByShortName(runner: Place, word: string): Promise<Found> {
  const { tiers, handlers } = await discover(runner.root, runner.settings);
  const scripts = tiers.flatMap((tier) => tier.scripts.map((script) => ({ tier, script })));
  // Two files of one name in a tier are both refused: either tells why.
  const matches = new Map(
    scripts.filter(({ tier, script }) => script.name === `${tier.name}/${word}`).map((each) => [each.tier.name, each]),
  );
  const [only, ...others] = matches.values();
  if (others.length > 0) {
    const names = [...matches.values()].map(({ script }) => printableName(script.name)).join(', ');
    throw new UsageError(
      `${JSON.stringify(word)} is the name of ${matches.size} scripts: ${names}. Name one with its tier.`,
    );
  }
  if (only !== undefined) return only;
  if (handlers.some(({ name }) => name === `${QUEUE_TIER}/${word}`)) throw namesHandler(word);
  if (tiers.some(({ name }) => name === word)) {
    throw new UsageError(`${JSON.stringify(word)} is a tier, not a script: \`npx folder-runner ${word}\` runs it.`);
  }
  await refuseDisabled(runner.root, word);
  throw unknownScript(
    runner.root,
    word,
    scripts.map(({ script }) => script),
  );
}

function unknownScript(root: string, name: string, scripts: readonly Script[]): UsageError {
  const names = scripts.map((script) => script.name);
  const nearest = nearestName(name, names) ?? nearestByEnd(name, names);
  const guess = nearest === null ? '.' : `; did you mean ${nearest}?`;
  return new UsageError(
    `There is no script ${JSON.stringify(name)} in ${root}/jobs${guess} ` +
      '`npx folder-runner list` shows all scripts, and ignored files with the reason.',
  );
}

/** By what stands after the tier: `clean-tmp`. */
function nearestByEnd(word: string, names: readonly string[]): string | null {
  const endOf = (name: string): string => name.slice(name.indexOf('/') + 1);
  const nearest = nearestName(word, names.map(endOf));
  return names.find((name) => endOf(name) === nearest) ?? null;
}
