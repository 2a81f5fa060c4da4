import { withoutParameters } from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import { UsageError } from '../../../system/base/errors.ts';
import { nearestName } from '../../../system/base/suggest.ts';
import { printableLine } from '../../../system/base/text.ts';
import { type RunRecord, tierOf } from './run.ts';
import { type RunFilter, selectRuns, selectScriptNames } from './runs.ts';

type SiteOfNames = Pick<Site, 'view' | 'known'>;

/** One script's runs in a window. */
export interface ScriptRuns {
  readonly script: string;
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** There are older ones in the window, which the limit left out. */
  readonly isCut: boolean;
}

interface ScriptQuery extends RunFilter {
  readonly tier?: string | undefined;
}

/**
 * Finds the script that was meant, in `jobs/` or in the log, and reads its runs.
 *
 * @throws {UsageError} when there is no such script
 */
export async function readScriptRuns(site: SiteOfNames, word: string, query: ScriptQuery): Promise<ScriptRuns> {
  const names = await findNames(site);
  const inTier = names.filter((name) => query.tier === undefined || tierOf(name) === query.tier);
  const script = findRecordedScript(word, inTier);
  const { sinceMs, untilMs, outcomes, limit } = query;
  // One more than asked for tells whether there are more.
  const beyond = limit === undefined ? undefined : limit + 1;
  const filter = { sinceMs, untilMs, outcomes, limit: beyond };
  const runs = await selectRuns(await site.view(), script, filter);
  const isCut = limit !== undefined && runs.length > limit;
  return { script, sinceMs, untilMs, runs: runs.slice(0, limit), isCut };
}

/** Every script that is in `jobs/`, disabled ones among them, or was once. */
export async function findNames({ view, known }: SiteOfNames): Promise<string[]> {
  const logged = await selectScriptNames((await view()).db);
  const inJobs = ((await known()) ?? []).flatMap(({ scripts, disabled = [] }) => [...scripts, ...disabled]);
  return [...new Set([...inJobs, ...logged])];
}

/**
 * The full name of the script that was meant: `hourly/clean-tmp`, or only `clean-tmp` where no other
 * tier has one of that name; of `mail/welcome?user=7` the handler.
 *
 * @throws {UsageError} that names the nearest script
 */
export function findRecordedScript(word: string, scripts: readonly string[]): string {
  if (scripts.includes(word)) return word;
  const matches = scripts.filter((script) => shortName(script) === word);
  const [only, ...others] = matches;
  const handler = withoutParameters(word);
  if (only === undefined && handler !== word) return findRecordedScript(handler, scripts);
  if (only === undefined) throw unknownScript(word, scripts);
  if (others.length === 0) return only;
  throw new UsageError(
    `${quote(word)} is the name of ${matches.length} scripts: ${matches.map(printableLine).join(', ')}. ` +
      'Name one of them with its tier.',
  );
}

/** `clean-tmp` of `hourly/clean-tmp`. */
function shortName(script: string): string {
  return script.slice(script.indexOf('/') + 1);
}

function unknownScript(word: string, scripts: readonly string[]): UsageError {
  const tier = scripts.find((script) => script.startsWith(`${word}/`));
  if (tier !== undefined) {
    return new UsageError(
      `${quote(word)} is a tier, not a script: \`npx folder-runner report --tier ${printableLine(word)}\` shows it.`,
    );
  }
  const nearest = nearestName(word, scripts) ?? nearestByShortName(word, scripts);
  const hint = nearest === null ? '`npx folder-runner list` names them all' : `did you mean ${printableLine(nearest)}`;
  return new UsageError(
    `There is no script ${quote(word)} in jobs/ or in the log; ${hint}${nearest === null ? '.' : '?'}`,
  );
}

/** A tier that neither `jobs/` nor the log has. */
export function unknownTier(word: string, tiers: readonly string[]): UsageError {
  const nearest = nearestName(word, tiers);
  const hint =
    nearest === null
      ? `the tiers are ${tiers.map(printableLine).join(', ') || 'none'}.`
      : `did you mean ${printableLine(nearest)}?`;
  return new UsageError(`There is no tier ${quote(word)} in jobs/ or in the log; ${hint}`);
}

function nearestByShortName(word: string, scripts: readonly string[]): string | null {
  const nearest = nearestName(word, scripts.map(shortName));
  return scripts.find((script) => shortName(script) === nearest) ?? null;
}

function quote(word: string): string {
  return JSON.stringify(printableLine(word));
}
