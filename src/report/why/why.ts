import { basename, dirname, extname, join, relative, resolve, sep } from 'node:path';
import type { JobsContents } from '../../discovery/discover.ts';
import { quoteName, scriptsMeant, severalNames } from '../../discovery/find-script.ts';
import { QUEUE_TIER } from '../../discovery/jobs-folder.ts';
import type { DisabledScript } from '../../discovery/not-run.ts';
import {
  type Discovery,
  describeHosts,
  type Ignored,
  type Script,
  shortNameOf,
  type Unread,
  withoutParameters,
} from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import type { Finding } from '../../monitor/finding.ts';
import { UsageError } from '../../system/base/errors.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { nearestPath } from '../../system/base/suggest.ts';
import { printable, printableLine, withInstants } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import { readChain } from '../model/chain.ts';
import { selectScriptNames } from '../model/runs/runs.ts';
import type { TierState } from '../model/tier.ts';
import type { Clock } from '../text/clock.ts';
import { describeResume } from '../text/words.ts';
import {
  concludeRunning,
  explainFacts,
  explainFile,
  fine,
  isLinked,
  type Telling,
  type Why,
  type WhyWithChain,
  wrong,
} from './explain.ts';
import { readWhyFacts, type WhyFacts } from './facts.ts';

/** A word, the folder in which the user gave it, and the clock for times. */
interface Question {
  readonly word: string;
  readonly cwd: string;
  readonly clock: Clock;
}

interface WhyQuery extends Question, JobsContents, Telling {
  readonly site: Site;
}

/**
 * Why a script did or didn't run.
 *
 * @throws {UsageError} when a tier is named, or several scripts are
 */
export async function readWhy(site: Site, question: Question): Promise<Why> {
  const query = { ...question, ...(await site.jobs()), root: site.root, site };
  const logged = await selectScriptNames((await site.view()).db);
  const target = findTarget({ ...query, logged });
  if (target.kind === 'script') return await explainScript(query, target.script);
  if (target.kind === 'command') return await explainCommand(query, target.name);
  if (target.kind === 'gone') return await explainGone(query, target.name);
  if (target.kind === 'disabled') return explainDisabled(query, target.disabled);
  if (target.kind === 'ignored') return explainIgnored(query, target.ignored);
  if (target.kind === 'elsewhere') return explainElsewhere(query, target.script);
  return explainUnknown(query, target.nearest);
}

/** With the scripts that it waits for, and those that wait for it. */
export async function withChain(site: Site, why: Why): Promise<WhyWithChain> {
  return { ...why, chain: why.script === null ? null : await readChain(site, why.script) };
}

async function explainScript(query: WhyQuery, script: Script): Promise<Why> {
  const before = [...explainSettings(query), ...explainFile(script, query)];
  const { problem } = query.site;
  if (problem !== null) return explainWithoutLog(script, before, problem);
  const facts = await readWhyFacts(query.site, script.name, script);
  const findings = [...before, ...explainFacts(facts, query)];
  const conclusion = concludeWhy(facts, { ...query, script }, query.clock);
  return { script: script.name, findings, conclusion };
}

/** Without the log, the findings do not say that it never ran, or that its tier is free. */
function explainWithoutLog(script: Script, before: readonly Finding[], problem: string): Why {
  const log = wrong('log', printable(problem).replaceAll('\n', ' '), '`npx folder-runner doctor` checks it.');
  const isKept = before.some(({ status }) => status === 'critical');
  const conclusion = isKept
    ? 'It does not run until you fix the problem above.'
    : 'Its file is fine, and passes also run without the log. More is not known.';
  return { script: script.name, findings: [...before, log], conclusion };
}

function explainSettings({ settingsProblem }: WhyQuery): Finding[] {
  if (settingsProblem === null) return [];
  const text = printable(settingsProblem).replaceAll('\n', '; ');
  return [wrong('settings', text, 'Fix this: until then no call starts anything.')];
}

async function explainGone(query: WhyQuery, name: string): Promise<Why> {
  const facts = await readWhyFacts(query.site, name, null);
  const ofPast = new Set(['last run', 'last success', 'job', 'paused']);
  return {
    script: name,
    findings: [
      ...explainSettings(query),
      explainMissing(query, name, `jobs/ has no file for ${printableLine(name)} any more`, LIST),
      ...explainFacts(facts, query).filter(({ code }) => ofPast.has(code)),
    ],
    conclusion: findUnread(query, name)
      ? UNREAD
      : 'It does not run because its file is gone; it did run when it was there.',
  };
}

const ofCommands = new Set([
  ...['called', 'skipped', 'lock', 'paused', 'job', 'last job', 'last run', 'compared', 'last success'],
]);

/** A command has no file: all that is known of it are its calls. */
async function explainCommand(query: WhyQuery, name: string): Promise<Why> {
  const facts = await readWhyFacts(query.site, name, null);
  const findings = explainFacts(facts, query).filter(({ code }) => ofCommands.has(code));
  const found = fine('found', 'a command of `npx folder-runner exec`, without a file in jobs/');
  return { script: name, findings: [found, ...findings], conclusion: concludeCommand(facts, query.clock) };
}

function concludeCommand(facts: WhyFacts, clock: Clock): string {
  const { running, pause, waiting, tier, script, nowMs } = facts;
  if (running !== null) return concludeRunning(running, 'its next call', clock);
  if (waiting?.state === 'retrying' && tier.holder !== null) {
    return `Its call tries it again${waiting.runAtMs > nowMs ? ` at ${clock.short(waiting.runAtMs)}` : ''}.`;
  }
  if (pause !== null) return concludePaused(facts, clock);
  const { expected, isInCrontab } = tier;
  if (expected === null || !isInCrontab) {
    return `It runs whenever \`npx folder-runner exec ${printableLine(shellWord(shortNameOf({ name: script })))}\` is called.`;
  }
  if (expected.isOverdue) {
    return `Its crontab line has not called it at ${clock.short(expected.atMs)}: \`npx folder-runner doctor\` checks the crontab.`;
  }
  return `Its crontab line calls it at ${clock.short(expected.atMs)}.`;
}

const LIST = '`npx folder-runner list` shows all scripts, and which files are ignored, and why.';

const UNREAD = 'It does not run: scripts in an unreadable folder cannot run.';

function findUnread({ discovery }: WhyQuery, name: string): Unread | undefined {
  const inJobs = name.replace(/^jobs\//, '');
  return discovery.unread.find(({ tier }) => inJobs.startsWith(`${tier}/`));
}

/** A file in a folder that cannot be read may exist: the finding names the folder's fault instead. */
function explainMissing(query: WhyQuery, name: string, text: string, cure: string): Finding {
  const unread = findUnread(query, name);
  return unread === undefined ? wrong('found', text, cure) : wrong('found', printableLine(unread.reason), null);
}

const MOVE = 'Rename it or move it into a tier; docs/scripts.md says which files are scripts.';

function explainIgnored(query: WhyQuery, { path, reason, chmod }: Ignored): Why {
  const file = printableLine(relative(query.root, path));
  const cure = chmod === undefined ? MOVE : `Make it executable: \`${chmod}\``;
  return {
    script: null,
    findings: [...explainSettings(query), fine('found', file), wrong('ignored', printableLine(reason), cure)],
    conclusion: `It does not run because ${file} is not a script.`,
  };
}

function explainDisabled(query: WhyQuery, { name, path }: DisabledScript): Why {
  const file = printableLine(relative(query.root, path));
  const cure = `\`npx folder-runner enable ${shellWord(printableLine(name))}\` takes the ending off again.`;
  return {
    script: name,
    findings: [...explainSettings(query), fine('found', file), wrong('disabled', 'its name ends in .disabled', cure)],
    conclusion: `It does not run because it is disabled: \`npx folder-runner enable ${shellWord(printableLine(name))}\` ends that.`,
  };
}

function explainElsewhere(query: WhyQuery, script: Script): Why {
  const file = printableLine(relative(query.root, script.path));
  const hosts = wrong(
    'elsewhere',
    `it ${printableLine(describeHosts(script))}`,
    'To run it here, change its tag or setting `host`.',
  );
  return {
    script: script.name,
    findings: [...explainSettings(query), fine('found', file), hosts],
    conclusion: 'It does not run here because it is for other machines.',
  };
}

function explainUnknown(query: WhyQuery, nearest: string | null): Why {
  const word = JSON.stringify(printableLine(query.word));
  const guess = nearest === null ? LIST : `Did you mean ${printableLine(nearest)}?`;
  return {
    script: null,
    findings: [
      ...explainSettings(query),
      explainMissing(query, query.word, `there is no script and no other file ${word} in jobs/`, guess),
    ],
    conclusion: findUnread(query, query.word) ? UNREAD : 'It does not run because it does not exist.',
  };
}

/** Faults that are known before the log is read. */
interface Obstacles {
  readonly script: Script;
  /** The fault of the settings; null: none. */
  readonly settingsProblem: string | null;
}

/** One sentence: whether it will run, when, and else what is in the way. The first reason that counts. */
function concludeWhy(facts: WhyFacts, { script, settingsProblem }: Obstacles, clock: Clock): string {
  if (settingsProblem !== null) {
    return 'It does not run: no call starts anything until the settings are fixed.';
  }
  if (facts.running !== null) return concludeRunning(facts.running, facts.tier.tier, clock);
  if (script.refusals.length > 0) {
    return 'It does not run: it is refused until you fix the problem above.';
  }
  if (facts.pause !== null) return concludePaused(facts, clock);
  if (isLinked(facts) && facts.links !== null) {
    const then =
      facts.links.untilMs === null ? 'runs once that is so' : 'will run with the first call of any tier after that';
    return `It ${withInstants(facts.links.text, clock.short)}, and ${then}.`;
  }
  return concludeWaiting(facts, clock) ?? concludeTier(facts, clock);
}

function concludePaused({ pause }: WhyFacts, clock: Clock): string {
  if (pause === null) return '';
  const command = `\`${describeResume(pause)}\``;
  if (pause.until === null) return `It does not run because it is paused: ${command} ends the pause.`;
  return `It does not run because it is paused until ${clock.short(pause.until)}; ${command} ends the pause now.`;
}

function concludeWaiting({ waiting, links, nowMs }: WhyFacts, clock: Clock): string | null {
  if (waiting === null) return null;
  if (waiting.state === 'queued') return 'It will run in the current pass.';
  if (waiting.state === 'claimed') return 'It begins in a moment.';
  if (waiting.state === 'deferred') return 'It will run with the next call of any tier, first in line.';
  if (waiting.state === 'linked') return 'It will run with the next call of any tier: what it waited for has come.';
  const atMs = Math.max(waiting.runAtMs, links?.untilMs ?? waiting.runAtMs);
  const when = atMs <= nowMs ? 'the next call of any tier' : `the first call of any tier after ${clock.short(atMs)}`;
  return `It will be retried by ${when}.`;
}

function concludeTier(facts: WhyFacts, clock: Clock): string {
  const { tier, isDueAgain } = facts;
  const name = printableLine(tier.tier);
  if (tier.periodMs === null) return `It runs only when you call \`npx folder-runner ${name}\`.`;
  if (tier.lastScheduledCallMs === null) {
    return concludeNeverCalled(tier, clock);
  }
  if (isDueAgain && !tier.expected?.isOverdue) {
    return `It will run with the next call of \`npx folder-runner due\`, because the last pass of ${name} died.`;
  }
  const { leftOutUntilMs } = facts;
  if (leftOutUntilMs !== null && !tier.expected?.isOverdue) {
    return `It is left out until ${clock.short(leftOutUntilMs)}, as its @except says, and will run with the pass of ${name} after that.`;
  }
  return concludeTimes(facts, clock) ?? concludeNext(tier, tier.lastScheduledCallMs, clock);
}

/** Describes the next time of a script with times of its own, whose tier is called. */
function concludeTimes({ next, tier, links, nowMs }: WhyFacts, clock: Clock): string | null {
  if (next === null || tier.expected?.isOverdue) return null;
  if (next.schedule === null)
    return 'It runs once after the next boot of this machine, with the first pass of any tier.';
  if (next.atMs === null) return 'It does not run any more: its schedule gives no further time.';
  const name = printableLine(tier.tier);
  const about = next.passMs === null || tier.isDue ? '' : `, about ${clock.short(next.passMs)}`;
  const when = clock.short(next.atMs);
  const inWindow = links?.hasWindow ? 'the first pass of any tier in its window' : null;
  if (next.atMs <= nowMs) {
    return `Its time, ${when}, has come: it will run with ${inWindow ?? `the next pass of ${name}`}${about}.`;
  }
  return `It waits for its next time, ${when}, and will run with ${inWindow ?? `the pass of ${name} after that`}${about}.`;
}

function concludeNeverCalled({ tier, isInCrontab, expected }: TierState, clock: Clock): string {
  const name = printableLine(tier);
  if (isInCrontab === null) {
    return `It does not run by itself because cron has never called ${name}: run \`npx folder-runner cron --install\`.`;
  }
  if (!isInCrontab) {
    return `It does not run by itself because no crontab line calls ${name}: run \`npx folder-runner cron --install\`.`;
  }
  if (expected?.isOverdue) {
    return `It did not run because cron has not called ${name} at ${clock.short(expected.atMs)}: \`npx folder-runner doctor\` checks the crontab.`;
  }
  const when = expected === null ? '' : `, at ${clock.short(expected.atMs)}`;
  return `It will run with the first pass of ${name}${when}.`;
}

function concludeNext(
  { tier, isInCrontab, isUncalled, expected, holder }: TierState,
  lastCallMs: number,
  clock: Clock,
): string {
  const name = printableLine(tier);
  if (isUncalled) {
    return `It does not run by itself because no crontab line calls ${name}: run \`npx folder-runner cron --install\`.`;
  }
  if (expected?.isOverdue) {
    return `It did not run because cron has not called ${name} since ${clock.short(lastCallMs)}: \`npx folder-runner doctor\` checks the crontab.`;
  }
  const when = expected === null ? '' : `, ${isInCrontab ? 'at' : 'about'} ${clock.short(expected.atMs)}`;
  const after = holder === null ? '' : ', if the one that runs now is over by then';
  return `It will run with the next pass of ${name}${when}${after}.`;
}

/** The meaning of a word by which the user asked for a script: a name or a file. */
export type Target =
  | { readonly kind: 'script'; readonly script: Script }
  /** Only the log knows it. */
  | { readonly kind: 'gone'; readonly name: string }
  /** It is called by `runner exec`. */
  | { readonly kind: 'command'; readonly name: string }
  | { readonly kind: 'disabled'; readonly disabled: DisabledScript }
  | { readonly kind: 'ignored'; readonly ignored: Ignored }
  | { readonly kind: 'elsewhere'; readonly script: Script }
  | { readonly kind: 'unknown'; readonly nearest: string | null };

interface TargetQuery {
  readonly word: string;
  readonly cwd: string;
  readonly root: string;
  readonly discovery: Discovery;
  readonly disabled: readonly DisabledScript[];
  /** Every script that ever ran. */
  readonly logged: readonly string[];
}

/** @throws {UsageError} when it names nothing, a tier or a folder above, a handler, or several scripts */
export function findTarget(query: TargetQuery): Target {
  const { word, discovery, logged } = query;
  const scripts = discovery.tiers.flatMap((tier) => tier.scripts);
  if (word.trim() === '') {
    throw new UsageError('`npx folder-runner why` needs the name of a script, or a file in jobs/.');
  }
  const tiers = [...discovery.tiers.map(({ name }) => name), ...discovery.unread.map(({ tier }) => tier)];
  const found = tiers.includes(word) ? null : findNamed(query, scripts);
  if (found !== null) return { kind: 'script', script: found };
  const elsewhere = findNamed(query, discovery.elsewhere);
  if (elsewhere !== null) return { kind: 'elsewhere', script: elsewhere };
  const folder = describeFolder({ ...query, paths: pathsOf(query), tiers });
  if (folder !== null) throw new UsageError(`${quoteName(word)} ${folder}`);
  assertNoHandler(query);
  const disabled = findNamed(query, query.disabled);
  if (disabled !== null) return { kind: 'disabled', disabled };
  const ignored = findIgnored(query);
  if (ignored !== null) return { kind: 'ignored', ignored };
  const gone = onlyOne(
    word,
    logged.filter((name) => name === word || endsWith(name, word)),
  );
  if (gone !== null) return { kind: isExecName(gone) ? 'command' : 'gone', name: gone };
  const names = scripts.map(({ name }) => name);
  return { kind: 'unknown', nearest: nearestPath(word, names) };
}

/** Several files may have the name, and all are refused then. */
function findNamed<Each extends Script | DisabledScript>(query: TargetQuery, scripts: readonly Each[]): Each | null {
  const meant = scriptsMeant(query.word, query, scripts);
  onlyOne(
    query.word,
    meant.map(({ name }) => name),
  );
  return meant[0] ?? null;
}

/** Paths that a file's name might mean: here, in the root, in `jobs/`. */
function pathsOf({ word, cwd, root }: TargetQuery): readonly string[] {
  return [cwd, root, join(root, 'jobs')].map((folder) => resolve(folder, word));
}

/** By its path or its name; by the name that it would have as a script; or as part of an ignored folder. */
function findIgnored(query: TargetQuery): Ignored | null {
  const { word, discovery } = query;
  const paths = pathsOf(query);
  const ways: readonly ((path: string) => boolean)[] = [
    (path) => paths.includes(path),
    (path) => namesOf(path).some((name) => paths.includes(join(dirname(path), name))),
    (path) => namesOf(path).includes(word),
    (path) => paths.some((each) => each.startsWith(path + sep)),
  ];
  for (const isMeant of ways) {
    const found = discovery.ignored.find(({ path }) => isMeant(path));
    if (found !== undefined) return found;
  }
  return null;
}

/** By what a file may be meant: `_x.sh.disabled` also by `_x`, `x.sh.disabled`, `x.sh` and `x`. */
function namesOf(path: string): readonly string[] {
  const name = basename(path);
  return [name, name.replace(/^[._]+|~$/g, '')].flatMap(withShorter);
}

/** A name, and what is left of it without its extensions. */
function withShorter(name: string): readonly string[] {
  const extension = extname(name);
  return extension === '' ? [name] : [name, ...withShorter(basename(name, extension))];
}

function endsWith(name: string, label: string): boolean {
  return name.endsWith(`/${label}`);
}

function onlyOne(word: string, names: readonly string[]): string | null {
  const [first, ...others] = new Set(names);
  if (others.length === 0) return first ?? null;
  throw severalNames(word, [...new Set(names)]);
}

/** A handler is run for jobs: whether and when is to be asked of one of these. */
function assertNoHandler(query: TargetQuery): void {
  const { handlers } = query.discovery;
  const word = withoutParameters(query.word);
  const handler = findNamed(query, handlers) ?? findNamed({ ...query, word }, handlers);
  if (handler === null) return;
  const name = printableLine(shortNameOf(handler));
  const refusals = handler.refusals.map((refusal) => ` It is refused: ${printableLine(refusal)}.`);
  throw new UsageError(
    `${quoteName(query.word)} is the handler of jobs called ${name}: \`npx folder-runner jobs ${name}\` lists them, ` +
      `\`npx folder-runner status\` shows the state of the queue.${refusals.join('')}`,
  );
}

interface FolderQuery {
  readonly root: string;
  readonly word: string;
  /** The word, and the paths that it may mean. */
  readonly paths: readonly string[];
  readonly tiers: readonly string[];
}

/** A hint for a word that means `jobs/` or one of its folders; null: it means none of them. */
function describeFolder({ root, word, paths, tiers }: FolderQuery): string | null {
  const isMeant = (name: string): boolean => name === word || paths.includes(join(root, 'jobs', name));
  const tier = tiers.find(isMeant);
  if (tier !== undefined) return describeTier(tier);
  if (isMeant(QUEUE_TIER)) return QUEUE;
  return isMeant('') ? 'contains the tiers: `npx folder-runner list` shows them.' : null;
}

function describeTier(tier: string): string {
  return `is a tier: \`npx folder-runner status\` shows its state. To ask about a script, name it: ${printableLine(tier)}/<script>.`;
}

const QUEUE =
  'contains the handlers of queued jobs: `npx folder-runner jobs` lists these jobs, `npx folder-runner status` shows the state of the queue.';
