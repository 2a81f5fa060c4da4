import { handlerNames } from '../../../discovery/discover.ts';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import {
  hasOwnTimes,
  isOfEachPass,
  linksOf,
  mayBeLeftOut,
  mayHaveToWait,
  type Script,
  type Tier,
} from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import { WHOLE_QUEUE } from '../../../queue/pauses.ts';
import { record, shown, type Values } from '../../../system/base/record.ts';
import { DAY_MS, once } from '../../../system/base/values.ts';
import { noSuchTier } from '../../names.ts';
import { linkRecord } from '../chain.ts';
import { pauseRecord } from '../pauses.ts';
import { tierOf } from '../runs/run.ts';
import { noRises, readRises, readUsual } from '../runs/script.ts';
import { readTierStates } from '../tier.ts';
import {
  type Coming,
  findJobs,
  findOpenScripts,
  findPasses,
  findScheduled,
  itemRecord,
  lateRecord,
  subjectOf,
} from './coming.ts';
import { foreseeGated, waitingNextRecord } from './gated.ts';

const linkedRecord = record('LinkedScript', {
  script: shown.text.like('daily/report'),
  links: shown.list(shown.one(linkRecord)),
  between: shown.text.like('22:00 and 05:00').orNull.about('The times at which it may start; null: any'),
  except: shown.list(shown.text).about('Files of the dates on which passes leave it out'),
});

/** The scripts that each pass of a tier runs. */
const passRecord = record('NextPass', {
  tier: shown.text.like('hourly'),
  scripts: shown.list(shown.text).about('Those without times of their own'),
  usualMs: shown.number.orNull.about('How long those take for which it is known; null: it is for none'),
  linked: shown
    .list(shown.one(linkedRecord))
    .about('Those of them that wait for others, or for their window, or are left out on some dates'),
});

/** Runs that come up to a time, and those that did not come: `runner next --json`. */
export const nextRecord = record('Next', {
  from: shown.instant,
  until: shown.instant,
  late: shown.list(shown.one(lateRecord)).about('What did not come'),
  items: shown.list(shown.one(itemRecord)).about('In the order of time'),
  more: shown.integer.about('How many further items are known'),
  waiting: shown
    .list(shown.one(waitingNextRecord))
    .about('What is queued, and waits for longer than that, or nobody knows how long'),
  completeUntil: shown.instant.about('All that is known to come before that is among the items'),
  passes: shown.list(shown.one(passRecord)),
  afterBoot: shown.list(shown.text).about('Scripts that run after the next boot'),
  pauses: shown.list(shown.one(pauseRecord)),
  disabled: shown.list(shown.text).about('Disabled scripts and handlers'),
  refused: shown.list(shown.text).about('Scripts that do not run until what is wrong in them is fixed'),
  isLogUnread: shown.flag.about('The log cannot be read, so jobs and tries are unknown'),
  isCrontabUnread: shown.flag.about('The crontab cannot be read, so calls are estimated from earlier ones'),
  settingsProblem: shown.text
    .like('runner.config.json:2: concurrency must be a whole number from 1 to 64, found 0')
    .orNull.about('Why nothing is started until the settings are fixed'),
});

export type Next = Values<typeof nextRecord>;

export type NextItem = Values<typeof itemRecord>;

export interface NextQuery {
  readonly untilMs: number;
  /** Only this tier, or `queue`. Default: all. */
  readonly tier?: string | undefined;
  /** Most items. */
  readonly limit: number;
}

const LONGEST_DAYS = 31;

/** The rule for the end of the time to look at. */
export const EXPECTED_END = `in the future, within ${LONGEST_DAYS} days`;

/** Whether it is: a tier that is called each minute has 44,640 calls in a month. */
export function isNearEnough(nowMs: number, untilMs: number): boolean {
  return untilMs > nowMs && untilMs - nowMs <= LONGEST_DAYS * DAY_MS;
}

/**
 * Reads what will run from now on, by crontab, schedules and log.
 *
 * @throws {NoSuchName} (rejects) if there is no such tier
 */
export async function readNext(site: Site, { untilMs, tier, limit }: NextQuery): Promise<Next> {
  const { discovery, disabled, settingsProblem } = await site.jobs();
  const isWanted = (name: string): boolean => tier === undefined || tier === name;
  const tiers = discovery.tiers.filter(({ name }) => isWanted(name));
  if (tier !== undefined && tier !== WHOLE_QUEUE && tiers.length === 0) throw noSuchTier(tier, tierNames(site.root));
  const isChained = tiers.some(({ scripts }) => scripts.some(({ links }) => links !== undefined));
  const ahead = {
    site,
    untilMs,
    // A script may wait for scripts of other tiers.
    tiers: isChained ? discovery.tiers : tiers,
    pauses: await site.pauses(),
    ...(await readTierStates(site, tierNames(site.root))),
  };
  const found = [
    findPasses(ahead),
    await findScheduled(ahead),
    await findOpenScripts(ahead),
    ...(isWanted(WHOLE_QUEUE) ? [await findJobs(ahead, handlerNames(discovery))] : []),
  ];
  const usualOf = usualReader(site);
  const gated = await foreseeGated(
    ahead,
    found.flatMap(({ items }) => items),
    usualOf,
  );
  const isOfTier = ({ kind, name: subject }: Pick<Coming, 'kind' | 'name'>): boolean =>
    kind === 'job' || isWanted(kind === 'tier' ? subject : tierOf(subject));
  const all = gated.items.filter(isOfTier).toSorted((one, other) => one.atMs - other.atMs);
  const completeMs = Math.min(...found.map((each) => each.completeMs));
  const known = all.filter(({ atMs }) => atMs <= completeMs);
  const listed = known.slice(0, limit);
  const scripts = tiers.flatMap((each) => each.scripts);
  const usual = await readAllUsual(site, { items: listed, tiers, usualOf });
  return {
    ...{ fromMs: site.nowMs, untilMs },
    late: found.flatMap(({ late }) => late).filter(isOfTier),
    items: listed.map((item) => withUsual(item, usual)),
    more: all.length - listed.length,
    waiting: gated.waiting.filter(({ script }) => isWanted(tierOf(script))),
    completeUntilMs: known[limit]?.atMs ?? completeMs,
    passes: tiers.map((each) => describePass(each, usual)),
    afterBoot: namesOf(scripts.filter((script) => hasOwnTimes(script) && script.options.reboot)),
    pauses: ahead.pauses,
    disabled: namesOf(disabled.filter((each) => isWanted(each.tier))),
    refused: namesOf(scripts.filter(({ refusals }) => refusals.length > 0)),
    isLogUnread: site.problem !== null,
    isCrontabUnread: (await site.crontab()) === null,
    settingsProblem,
  };
}

function describePass({ name, scripts }: Tier, usual: Usual): Next['passes'][number] {
  const linked = scripts.filter((script) => isOfEachPass(script) && (mayHaveToWait(script) || mayBeLeftOut(script)));
  return {
    ...{ tier: name, scripts: inEachPass(scripts), usualMs: usual.get(name) ?? null },
    linked: linked.map((script) => {
      const { between = null, except = [] } = script.options;
      return { script: script.name, links: linksOf(script), between, except };
    }),
  };
}

function namesOf(scripts: readonly Pick<Script, 'name'>[]): string[] {
  return scripts.map(({ name }) => name);
}

function inEachPass(scripts: readonly Script[]): string[] {
  return namesOf(scripts.filter(isOfEachPass));
}

/** Usual durations in milliseconds, by the names of items. */
type Usual = ReadonlyMap<string, number>;

type UsualOf = (script: string) => Promise<number | null>;

/** The usual duration of a script, asked for once. */
function usualReader({ store, nowMs }: Site): UsualOf {
  const known = new Map<string, Promise<number | null>>();
  const rises = once(() => readRises(store, nowMs));
  const read: UsualOf = async (script) =>
    (await readUsual(store, script, nowMs, (await rises()).get(script) ?? noRises)).durationMs;
  return (script) => {
    const asked = known.get(script) ?? read(script);
    known.set(script, asked);
    return asked;
  };
}

interface ListedItems {
  readonly items: readonly Coming[];
  readonly tiers: readonly Tier[];
  readonly usualOf: UsualOf;
}

async function readAllUsual(site: Site, { items, tiers, usualOf }: ListedItems): Promise<Usual> {
  const { settings } = await site.jobs();
  const usual = new Map<string, number>();
  const read = async (script: string): Promise<number | null> => {
    const durationMs = await usualOf(script);
    if (durationMs !== null) usual.set(script, durationMs);
    return durationMs;
  };
  for (const name of new Set(items.map(subjectOf))) {
    const tier = tiers.find((each) => each.name === name);
    if (tier === undefined) {
      await read(name);
      continue;
    }
    const each = await Array.fromAsync(inEachPass(tier.scripts), read);
    const known = each.filter((durationMs) => durationMs !== null);
    const atOnce = settings.tiers[name]?.concurrency ?? settings.concurrency;
    const together = known.reduce((sum, durationMs) => sum + durationMs, 0) / atOnce;
    if (known.length > 0) usual.set(name, Math.max(together, ...known));
  }
  return usual;
}

/** Several jobs take as long as one after the other. */
function withUsual({ lastMs, ...item }: Coming, usual: Usual): Next['items'][number] {
  const eachMs = usual.get(subjectOf(item)) ?? null;
  if (eachMs === null) return { ...item, usualMs: null, endMs: null };
  const usualMs = eachMs * item.count;
  return { ...item, usualMs, endMs: Math.round(Math.max(item.atMs + usualMs, lastMs + eachMs)) };
}
