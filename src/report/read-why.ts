import { relative } from 'node:path';
import type { Kysely } from 'kysely';
import type { StateFolder } from '../config/state-folder.ts';
import type { Discovery, Ignored, Script, Unread } from '../discovery/script.ts';
import type { ActivityLog } from '../store/schema.ts';
import { concludeWhy } from './conclude-why.ts';
import { explainFacts, explainFile, type Telling } from './explain-why.ts';
import { findTarget } from './find-target.ts';
import { printable, printableLine } from './printable.ts';
import { selectScriptNames } from './select-names.ts';
import { type Finding, fine, type Why, wrong } from './why.ts';
import { readWhyFacts } from './why-facts.ts';

export interface WhyQuery extends Telling {
  readonly word: string;
  readonly cwd: string;
  readonly discovery: Discovery;
  /** What is wrong with the settings; without them the defaults count. */
  readonly settingsProblem: string | null;
  /** Why the log was not read; null: it was, or there is none. */
  readonly logProblem: string | null;
  readonly states: readonly StateFolder[];
  readonly nowMs: number;
}

/**
 * Why a script did or didn't run.
 *
 * @throws {UsageError} when a tier is named, or several scripts are
 */
export async function readWhy(db: Kysely<ActivityLog>, query: WhyQuery): Promise<Why> {
  const logged = await selectScriptNames(db);
  const target = findTarget({ ...query, logged });
  if (target.kind === 'script') return await explainScript(db, query, target.script);
  if (target.kind === 'gone') return await explainGone(db, query, target.name);
  if (target.kind === 'ignored') return explainIgnored(query, target.ignored);
  return explainUnknown(query, target.nearest);
}

async function explainScript(
  db: Kysely<ActivityLog>,
  query: WhyQuery,
  script: Script,
): Promise<Why> {
  const before = [...explainSettings(query), ...explainFile(script, query)];
  if (query.logProblem !== null) return explainWithoutLog(script, before, query.logProblem);
  const facts = await readWhyFacts(db, script.name, { ...query, file: script });
  const findings = [...before, ...explainFacts(facts, query)];
  const conclusion = concludeWhy(facts, { ...query, script }, query.clock);
  return { script: script.name, findings, conclusion };
}

/** What is not known is not told: not that it never ran, nor that its tier is free. */
function explainWithoutLog(script: Script, before: readonly Finding[], problem: string): Why {
  const log = wrong(
    'log',
    printable(problem).replaceAll('\n', ' '),
    '`runner doctor` looks at it.',
  );
  const isKept = before.some(({ verdict }) => verdict === 'wrong');
  const conclusion = isKept
    ? 'It does not run until what is named above is put right.'
    : 'Nothing of its file keeps it from running; passes run without the log, too. More is not known.';
  return { script: script.name, findings: [...before, log], conclusion };
}

function explainSettings({ settingsProblem }: WhyQuery): Finding[] {
  if (settingsProblem === null) return [];
  const text = printable(settingsProblem).replaceAll('\n', '; ');
  return [wrong('settings', text, 'Put that right: until then no call starts anything.')];
}

async function explainGone(db: Kysely<ActivityLog>, query: WhyQuery, name: string): Promise<Why> {
  const facts = await readWhyFacts(db, name, { ...query, file: null });
  const ofPast = new Set(['last run', 'last success', 'job', 'paused']);
  return {
    script: name,
    findings: [
      ...explainSettings(query),
      explainMissing(query, name, `no file in jobs/ makes ${printableLine(name)} any more`, LIST),
      ...explainFacts(facts, query).filter(({ topic }) => ofPast.has(topic)),
    ],
    conclusion: findUnread(query, name)
      ? UNREAD
      : 'It does not run because its file is gone; it did run when it was there.',
  };
}

const LIST = '`runner list` shows what is there, and what is ignored and why.';

const UNREAD = 'It does not run: nothing in a folder runs that cannot be read.';

function findUnread({ discovery }: WhyQuery, name: string): Unread | undefined {
  const inJobs = name.replace(/^jobs\//, '');
  return discovery.unread.find(({ tier }) => inJobs.startsWith(`${tier}/`));
}

/** Of what is in a folder that cannot be read nobody can say that it is not there. */
function explainMissing(query: WhyQuery, name: string, text: string, cure: string): Finding {
  const unread = findUnread(query, name);
  return unread === undefined
    ? wrong('found', text, cure)
    : wrong('found', printableLine(unread.reason), null);
}

function explainIgnored(query: WhyQuery, { path, reason }: Ignored): Why {
  const file = printableLine(relative(query.root, path));
  const cure =
    'docs/scripts.md tells what a script is: rename it, move it into a tier, or make it one.';
  return {
    script: null,
    findings: [
      ...explainSettings(query),
      fine('found', file),
      wrong('ignored', printableLine(reason), cure),
    ],
    conclusion: `It does not run because ${file} is no script.`,
  };
}

function explainUnknown(query: WhyQuery, nearest: string | null): Why {
  const word = JSON.stringify(printableLine(query.word));
  const guess = nearest === null ? LIST : `Did you mean ${printableLine(nearest)}?`;
  return {
    script: null,
    findings: [
      ...explainSettings(query),
      explainMissing(
        query,
        query.word,
        `there is no script and no other file ${word} in jobs/`,
        guess,
      ),
    ],
    conclusion: findUnread(query, query.word) ? UNREAD : 'It does not run because it is not there.',
  };
}
