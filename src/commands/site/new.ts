import { existsSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { QUEUE_TIER, reasonToIgnore, tierFolder, tierNames } from '../../discovery/jobs-folder.ts';
import { DISABLED } from '../../discovery/not-run.ts';
import { LONGEST_NAME } from '../../discovery/script.ts';
import { isScriptExtension } from '../../discovery/script-file.ts';
import { guessPeriodName, parseTierPeriod } from '../../schedule/period.ts';
import { isCommandName } from '../../system/base/command-names.ts';
import { UsageError } from '../../system/base/errors.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import { printableName, shellWord } from '../../system/base/values.ts';
import { languages } from '../shared/command.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { isProgram, type Language, templateOf } from './templates.ts';

/** `runner new`: a script to begin from. */
export function createScript(context: CommandContext, options: Given<'new'>): void {
  const root = rootOf(context, options.root);
  const place = readPlace(root, options['tier/name'], options.lang);
  const { tier, label, language, file } = place;
  const folder = join(root, 'jobs', tier);
  const isNewTier = !existsSync(folder);
  refuseTaken(place, folder);
  const path = join(folder, file);
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  const mode = isProgram(language) ? 0o755 : 0o644;
  writeFileSync(path, templateOf(language, tier === QUEUE_TIER), { flag: 'wx', mode });
  context.stdout.write(`${join('jobs', tier, file)} was created.\n${describeNext(tier, label, isNewTier)}`);
}

function describeNext(tier: string, label: string, isNewTier: boolean): string {
  const name = shellWord(`${tier}/${label}`);
  const isHandler = tier === QUEUE_TIER;
  return [
    '',
    'Next:',
    isHandler
      ? `  npx folder-runner add ${shellWord(label)} '{}' && npx folder-runner work`
      : `  npx folder-runner run ${name}`,
    ...(isNewTier && !isHandler ? [`  npx folder-runner cron --install    lets cron call ${tier}`] : []),
    '',
  ].join('\n');
}

interface ScriptPlace {
  readonly tier: string;
  /** The script's name within the tier. */
  readonly label: string;
  readonly language: Language;
  /** Below the tier's folder. */
  readonly file: string;
}

function readPlace(root: string, word: string, wanted: Language | undefined): ScriptPlace {
  const [tier = '', ...rest] = word.replace(/^(?:\.\/)?jobs\//, '').split('/');
  if (tier === '' || rest.length === 0) throw new UsageError(describeWithoutTier(root, word));
  const name = rest.join('/');
  assertTier(root, tier);
  const byExtension = languages.find((language) => extname(name) === `.${language}`);
  if (byExtension === undefined && isScriptExtension(extname(name))) {
    throw new UsageError(`There is no template for ${extname(name)}; expected ${languages.join(', ')}.`);
  }
  if (byExtension !== undefined && wanted !== undefined && wanted !== byExtension) {
    throw new UsageError(`--lang ${wanted} does not fit ${printableLine(basename(name))}; leave out one of the two.`);
  }
  const language = byExtension ?? wanted ?? 'ts';
  const label = byExtension === undefined ? name : name.slice(0, -extname(name).length);
  assertLabel(tier, label, `${label}.${language}`);
  return { tier, label, language, file: `${label}.${language}` };
}

function describeWithoutTier(root: string, word: string): string {
  const tiers = tierNames(root);
  const name = printableLine(basename(word)) || 'import-orders';
  const isTier = tiers.includes(word) || parseTierPeriod(word) !== null || word === QUEUE_TIER;
  const example = isTier ? `${printableLine(word)}/import-orders` : `hourly/${name}`;
  const known = tiers.length === 0 ? '' : `; the tiers here are ${tiers.join(', ')}`;
  return `\`npx folder-runner new\` needs <tier>/<name>, such as ${example}${known}.`;
}

/** A folder whose name tells no period is for people who call it by hand: they make it themselves. */
function assertTier(root: string, tier: string): void {
  if (tier === QUEUE_TIER || parseTierPeriod(tier) !== null) return;
  const known = tierNames(root);
  if (known.includes(tier)) return;
  if (existsSync(join(root, 'jobs', tier))) tierFolder(root, tier);
  const shown = printableLine(tier);
  const reason = isCommandName(tier) ? `\`npx folder-runner ${tier}\` is a command` : reasonToIgnore(tier);
  if (reason !== null) throw new UsageError(`jobs/${shown} would not be a tier: ${reason}. Choose another name.`);
  const nearest = guessPeriodName(tier) ?? nearestName(tier, known);
  const guess =
    nearest === null ? 'Expected a name such as 15min, hourly, 6hours or daily.' : `Did you mean ${nearest}?`;
  throw new UsageError(
    `${JSON.stringify(shown)} is not a schedule name, so cron would never run it. ${guess} ` +
      `For a tier that is run by hand, create the folder jobs/${shown} first.`,
  );
}

function assertLabel(tier: string, label: string, file: string): void {
  const parts = file.split('/');
  const shown = printableLine(label);
  if (parts.length > 1 && tier !== QUEUE_TIER) {
    throw new UsageError(`A script lies directly in its tier: expected ${tier}/<name>, found ${tier}/${shown}.`);
  }
  const [ignored] = parts.flatMap((part) => reasonToIgnore(part) ?? []);
  if (parts.some((part) => part.trim() === '' || part === '..') || basename(label).trim() === '') {
    throw new UsageError(`${tier}/${shown} is not a name for a script; expected one such as ${tier}/import-orders.`);
  }
  if (ignored !== undefined)
    throw new UsageError(`${tier}/${shown} would not be a script: ${ignored}. Choose another name.`);
  if (printableName(file) !== file)
    throw new UsageError(`The name ${JSON.stringify(shown)} contains control characters; choose another one.`);
  if (`${tier}/${label}`.length > LONGEST_NAME) {
    throw new UsageError(
      `The name is too long: tier and name together have at most ${LONGEST_NAME} characters; ` +
        'choose a shorter one.',
    );
  }
}

/** Two files with one name would both be refused. */
function refuseTaken({ tier, label, file }: ScriptPlace, folder: string): void {
  const within = dirname(join(folder, file));
  if (lstatSync(within, { throwIfNoEntry: false }) === undefined) return;
  const own = basename(label);
  const taken = readdirSync(within).find((name) => {
    const enabled = name.endsWith(DISABLED) ? name.slice(0, -DISABLED.length) : name;
    return enabled === basename(file) || enabled === own || basename(enabled, extname(enabled)) === own;
  });
  if (taken === undefined) return;
  const path = printableLine(join('jobs', tier, dirname(label), taken));
  throw new UsageError(`${path} exists already, with the name ${tier}/${printableLine(label)}; choose another name.`);
}
