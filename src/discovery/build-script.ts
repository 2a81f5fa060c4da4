import { scriptSettings } from '../settings/script-settings.ts';
import type { ScriptOptions, Settings, TierSettings } from '../settings/settings.ts';
import { describeProblem } from '../settings/table.ts';
import { once, printableName, shellWord } from '../system/base/values.ts';
import {
  distrustOf,
  fileName,
  matchableNames,
  type PatternMatcher,
  QUEUE_TIER,
  type TierPlace,
} from './jobs-folder.ts';
import { type Ignored, type Launch, LONGEST_NAME, type Script } from './script.ts';
import {
  byteOrderMark,
  chooseLaunch,
  hashWithImports,
  isShell,
  type LaunchChoice,
  launchByShell,
  parseShebang,
  removeMark,
  type ScriptFile,
} from './script-file.ts';
import { readScriptTags, type ScriptTags } from './tags.ts';

/** @param label the script's name within its tier */
export function buildScript(place: TierPlace, path: string, label: string, content: ScriptFile): Script | Ignored {
  const file = fileName(place, path);
  const choice = chooseLaunch(path, file, content);
  if ('ignored' in choice) {
    return { path, reason: choice.ignored, ...(choice.chmod !== undefined && { chmod: choice.chmod }) };
  }
  const tags = readTags(choice, file, content);
  const options = optionsOf(place, path, label, tags.options);
  const launch = launchOf(choice, path, options, content);
  if (launch === null)
    return refuseScript(place, path, label, 'refusal' in choice ? choice.refusal : null, content.hash);
  const hash = launch.kind === 'node' ? once(() => hashWithImports(place.root, path, content)) : content.hash;
  return {
    ...identify(place, path, label),
    launch,
    options,
    get contentHash() {
      return hash();
    },
    refusals: [
      ...place.distrust,
      ...distrustOf(place, path),
      ...tags.problems.map(describeProblem),
      ...refuseShell(choice, file, tags, content),
      ...refuseName(place, path, label),
    ],
    warnings: [
      ...tags.warnings,
      ...warnOfIsolation(place, file, tags),
      ...warnOfHandler(place, file, tags),
      ...warnOfZone(file, tags, options),
      ...warnOfUse(launch, file, tags, content),
    ],
  };
}

/**
 * A file that looks like a script but cannot run, perhaps only because of its name. A pass records it as not started.
 */
export function refuseScript(
  place: TierPlace,
  path: string,
  label: string,
  refusal: string | null,
  hash: () => string | null = () => null,
): Script {
  return {
    ...identify(place, path, label),
    launch: { kind: 'program', command: [path] },
    options: optionsOf(place, path, label, {}),
    get contentHash() {
      return hash();
    },
    refusals: [...place.distrust, refusal ?? [], refuseName(place, path, label)].flat(),
    warnings: [],
  };
}

function identify(place: TierPlace, path: string, label: string) {
  return { name: scriptName(place, label), tier: place.tier, path };
}

export function scriptName({ tier }: TierPlace, label: string): string {
  return cutScriptName(`${tier}/${printableName(label)}`);
}

/** Cuts a name that is too long: its script is refused, but needs a name for that. */
export function cutScriptName(name: string): string {
  return isTooLong(name.slice(0, name.indexOf('/')), name) ? `${[...name].slice(0, LONGEST_NAME - 1).join('')}…` : name;
}

/** Names of jobs lack the `queue/`; their length is checked when a handler's folder is read. */
function isTooLong(tier: string, name: string): boolean {
  return tier !== QUEUE_TIER && name.length > LONGEST_NAME;
}

function optionsOf(place: TierPlace, path: string, label: string, tags: ScriptOptions): ScriptOptions {
  const { root, settings, tier, matches } = place;
  const names = matchableNames(root, `${tier}/${label}`, path);
  return mergeOptions(settings, tier, names, tags, matches);
}

function refuseName(place: TierPlace, path: string, label: string): readonly string[] {
  const file = fileName(place, path);
  if (isTooLong(place.tier, `${place.tier}/${printableName(label)}`)) {
    return [`${file}: its name is too long: tier and name together have at most ${LONGEST_NAME} characters; rename it`];
  }
  if (printableName(path) !== path) {
    return [`${file}: its name contains control characters; rename it`];
  }
  return isNotUtf8(path) ? [`${file}: its name is not valid UTF-8; rename it`] : [];
}

/** Such a name arrives with this character in it, and does not open the file. */
export function isNotUtf8(path: string): boolean {
  return path.includes('\ufffd');
}

const noTags: ScriptTags = { options: {}, problems: [], warnings: [] };

type Choice = Exclude<LaunchChoice, { readonly ignored: string }>;

function readTags(choice: Choice, file: string, { head }: ScriptFile): ScriptTags {
  const comments = 'refusal' in choice ? (choice.lacksShebang ? 'hashes' : null) : choice.comments;
  return comments === null ? noTags : readScriptTags(head.toString('utf8'), comments, file);
}

/** Null: nothing says which program runs it. */
function launchOf(choice: Choice, path: string, { shell }: ScriptOptions, content: ScriptFile): Launch | null {
  if (shell !== undefined && isShellsOwn(choice, content)) return launchByShell(path, shell);
  return 'refusal' in choice ? null : choice.launch;
}

/** Whether a shell runs it, and it does not name the shell itself. */
function isShellsOwn(choice: Choice, { head }: ScriptFile): boolean {
  if ('refusal' in choice) return choice.lacksShebang === true;
  const { launch } = choice;
  return isShell(launch) && head.toString('latin1', 0, 2) !== '#!';
}

/** Refuses a tag only: settings for many scripts are meant for those that they fit. */
function refuseShell(choice: Choice, file: string, { options }: ScriptTags, content: ScriptFile): readonly string[] {
  if (options.shell === undefined || isShellsOwn(choice, content)) return [];
  const line = parseShebang(content.head.toString('utf8'))?.line;
  const isNode = 'launch' in choice && choice.launch.kind === 'node';
  if (line === undefined || isNode)
    return [`${file}: @shell is for shell scripts, and this is not one; remove the tag`];
  return [
    `${file}: @shell is for scripts without a #! line, and this one begins with ${printableName(line)}; keep one of them`,
  ];
}

function warnOfIsolation({ tier }: TierPlace, file: string, { options }: ScriptTags): readonly string[] {
  if (tier === QUEUE_TIER || options.isolate === undefined) return [];
  return [`${file}: @isolate is for handlers in jobs/queue and has no effect here`];
}

const ofTiers = { ping: '', everyHost: ': each job runs once', between: '', except: '' } as const;

function warnOfHandler({ tier }: TierPlace, file: string, { options }: ScriptTags): readonly string[] {
  if (tier !== QUEUE_TIER) return [];
  const found = scriptSettings.filter(({ key }) => key in ofTiers && key in options);
  return found.map(({ key, tag }) => {
    const why = ofTiers[key as keyof typeof ofTiers];
    return `${file}: @${tag} is for scripts of tiers and has no effect on handlers${why}`;
  });
}

function warnOfZone(
  file: string,
  { options: { timezone } }: ScriptTags,
  { schedule, between, except }: ScriptOptions,
): readonly string[] {
  if (timezone === undefined || (schedule ?? between ?? except) !== undefined) return [];
  return [`${file}: @timezone has no effect without @schedule; add one such as @schedule daily at 02:30`];
}

function warnOfUse(launch: Launch, file: string, { options }: ScriptTags, { head }: ScriptFile): readonly string[] {
  if (launch.kind === 'node') return [];
  const ofMemory =
    options.memoryBytes === undefined
      ? []
      : [`${file}: @memory limits only the heap of Node scripts and has no effect here`];
  if (!isShell(launch)) return ofMemory;
  const source = head.toString();
  const lines = codeOf(source).split('\n');
  const ends = warnOfWindowsEnds(file, source) ?? [];
  const mark = warnOfByteOrderMark(file, source) ?? [];
  return [ofMemory, ends, mark, warnOfTruncation(file, lines), warnOfOwnLog(file, lines)].flat();
}

/** Warns about a shell script, and explains its failure, too; null: its first line ends correctly. */
export function warnOfWindowsEnds(file: string, source: string): string | null {
  if (!/^[^\n]*\r\n/.test(source)) return null;
  const cure = String.raw`sed -i 's/\r$//' ${shellWord(file)}`;
  return `${file}: its lines end as on Windows (CRLF), which a shell takes as part of each command; convert it with: ${cure}`;
}

/** Editors of Windows write such a mark. A script that has one before `#!` is refused. */
export function warnOfByteOrderMark(file: string, source: string): string | null {
  if (!source.startsWith(byteOrderMark)) return null;
  return `${file}:1: it begins with a byte-order mark, which a shell takes as part of the first command; remove it with: ${removeMark(file)}`;
}

/** The text of a here-document, a character after a backslash, quoted text, or a comment. */
const noCode = /(?<=<<-? *['"\\]?(\w+)\b.*)\n[\s\S]*?^\t*\1$|\\.|'[^']*'|"(\\[\s\S]|[^"\\])*"|(?<!\S)#.*/gm;

/** The same lines without each `>` that redirects nothing. It does not look into `"$(…)"` or the text for `sh -c`. */
function codeOf(script: string): string {
  return script.replace(noCode, (text) => text.replaceAll('>', '_'));
}

/** The run's output is a file, so `>` empties it when it opens it, as under `cron … >> log 2>&1`. */
function warnOfTruncation(file: string, lines: readonly string[]): readonly string[] {
  return lines.flatMap((line, index) => {
    const [, device] = /(?<![>&])>\s*(\/dev\/std(?:err|out))\b/.exec(line) ?? [];
    if (device === undefined) return [];
    return `${file}:${index + 1}: > ${device} empties the run's output so far; write >&2 or >&1 instead`;
  });
}

/** `exec >> file`, and a command that sends both outputs to a separate file, unless it runs in the background. */
const ownLog =
  /(?<=^\s*exec\s+)[12&]?>>?\s*[^\s&>(;|]+|(?:(?<!\d)1?>>?\s*[^\s&>(;|]+\s+2>&1|&>>?\s*[^\s&>(;|]+)(?=[\s)};]*$)/;

/** Its runs look as if it printed nothing. One warning is enough. */
function warnOfOwnLog(file: string, lines: readonly string[]): readonly string[] {
  for (const [index, line] of lines.entries()) {
    const [redirection] = ownLog.exec(line) ?? [];
    if (redirection === undefined || />\s*["']?\/dev\//.test(redirection)) continue;
    return [
      `${file}:${index + 1}: ${printableName(redirection)} sends its output to a file of its own, so the ` +
        `activity log has none of it; remove that, and \`npx folder-runner tail\` and \`npx folder-runner show\` have it`,
    ];
  }
  return [];
}

/** The precedence of options: a script's tags, then globs (later ones first), then its tier, then the defaults. */
export function mergeOptions(
  settings: Settings,
  tier: string,
  names: readonly string[],
  tags: ScriptOptions,
  matches: PatternMatcher,
): ScriptOptions {
  const byPattern = Object.entries(settings.scripts)
    .filter(([pattern]) => names.some((name) => matches(pattern, name)))
    .map(([, options]) => options);
  return Object.assign({}, settings.defaults, ofTier(settings, tier), ...byPattern, tags);
}

/** Leaves out settings of the tier itself, which are no options of its scripts. */
function ofTier({ tiers }: Settings, tier: string): ScriptOptions {
  if (!Object.hasOwn(tiers, tier)) return {};
  const { concurrency: _, catchUp: __, ping: ___, envFile: ____, ...options }: TierSettings = tiers[tier] ?? {};
  return options;
}
