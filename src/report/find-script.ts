import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import { printableLine } from './printable.ts';

/**
 * The full name of the script that was meant: `hourly/clean-tmp`, or only `clean-tmp` where no other
 * tier has one of that name.
 *
 * @throws {UsageError} that names the nearest script
 */
export function findScript(word: string, scripts: readonly string[]): string {
  if (scripts.includes(word)) return word;
  const matches = scripts.filter((script) => shortName(script) === word);
  const [only, ...others] = matches;
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
      `${quote(word)} is a tier, not a script: \`runner report --tier ${printableLine(word)}\` shows it.`,
    );
  }
  const nearest = nearestName(word, scripts) ?? nearestByShortName(word, scripts);
  const hint =
    nearest === null ? '`runner list` names them all' : `did you mean ${printableLine(nearest)}`;
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
