import { join, relative } from 'node:path';
import { isOnServer } from '../store/shared/which-log.ts';
import { isExecName } from '../system/base/exec-name.ts';
import { nearestPath } from '../system/base/suggest.ts';
import { printableName } from '../system/base/values.ts';
import {
  createPatternMatcher,
  fileName,
  type JobsPlace,
  matchableNames,
  type PatternMatcher,
  QUEUE_TIER,
} from './jobs-folder.ts';
import { DISABLED, findDisabled } from './not-run.ts';
import { type Discovery, type Link, type LinkedScript, type LinkKind, linkKinds, type Script } from './script.ts';

/** How people write each kind in a script. */
export const linkTags: Readonly<Record<LinkKind, string>> = {
  after: '@after',
  afterFailure: '@after-failure',
  always: '@always',
};

/** All that a link may name. */
interface Known {
  readonly place: JobsPlace;
  /** Scripts of all tiers, also those of other machines. */
  readonly scripts: readonly Script[];
  /** Disabled scripts, with their files below `jobs/`. */
  readonly disabled: readonly { readonly name: string; readonly file: string }[];
  readonly handlers: readonly Script[];
  /** Tiers whose folders cannot be read: any name may be in them. */
  readonly unread: readonly string[];
  readonly matches: PatternMatcher;
}

/** Finds what the scripts wait for. A script is refused if it names what is not there, or waits for itself in the end. */
export async function linkScripts(place: JobsPlace, found: Discovery, all: Discovery): Promise<Discovery> {
  const known = await readKnown(place, all);
  const linked = new Map(known.scripts.filter(isLinked).map((script) => [script.name, readLinks(script, known)]));
  const link = (script: Script): Script => {
    const own = linked.get(script.name);
    if (own === undefined || script.refusals.length > 0) return script;
    const circle = own.problems.length > 0 ? null : findCircle(script.name, linked);
    const problems = circle === null ? own.problems : [describeCircle(circle)];
    if (problems.length === 0) return { ...script, links: own.links };
    const file = fileName(place, script.path);
    return { ...script, refusals: problems.map((problem) => `${file}: ${printableName(problem)}`) };
  };
  return { ...found, tiers: found.tiers.map((tier) => ({ ...tier, scripts: tier.scripts.map(link) })) };
}

const isLinked = ({ options }: Script): boolean => linkKinds.some((kind) => options[kind] !== undefined);

async function readKnown(place: JobsPlace, { tiers, elsewhere, handlers, unread }: Discovery): Promise<Known> {
  const scripts = [...tiers.flatMap((tier) => tier.scripts), ...elsewhere.filter(({ tier }) => tier !== QUEUE_TIER)];
  const wanted = scripts.flatMap(({ tier, options }) =>
    linkKinds.flatMap((kind) => (options[kind] ?? []).map((word) => wholeName(word, tier))),
  );
  const jobs = join(place.root, 'jobs');
  return {
    ...{ place, scripts, handlers, unread: unread.map(({ tier }) => tier) },
    disabled: findDisabled(place.root).map(({ name, path }) => ({
      name,
      file: relative(jobs, path).slice(0, -DISABLED.length),
    })),
    matches: await createPatternMatcher(wanted),
  };
}

/** `fetch` in the tier `hourly` is `hourly/fetch`; a file may be named, too. */
function wholeName(word: string, tier: string): string {
  const name = word.replace(/^(?:\.\/)?jobs\//, '');
  return name.includes('/') ? name : `${tier}/${name}`;
}

interface OwnLinks {
  readonly links: readonly Link[];
  readonly problems: readonly string[];
}

function readLinks(script: Script, known: Known): OwnLinks {
  const problems: string[] = [];
  const links = linkKinds.flatMap((kind): Link[] => {
    const words = script.options[kind] ?? [];
    const scripts = new Map<string, LinkedScript>();
    for (const word of words) {
      const found = findLinked(word, script, known);
      if (typeof found === 'string') problems.push(`${linkTags[kind]} names ${word}, ${found}`);
      else for (const each of found) scripts.set(each.name, each);
    }
    return words.length === 0 ? [] : [{ kind, scripts: [...scripts.values()] }];
  });
  return { links, problems };
}

/** The scripts that a word names, or why it names none. */
function findLinked(word: string, script: Script, known: Known): readonly LinkedScript[] | string {
  const { place, scripts, disabled, handlers, unread, matches } = known;
  const name = wholeName(word, script.tier);
  const isMeant = (each: Pick<Script, 'name' | 'path'>): boolean =>
    matchableNames(place.root, each.name, each.path).some((text) => matches(name, text));
  const meant = scripts.filter(isMeant);
  const others = meant.filter((each) => each.name !== script.name);
  if (others.length > 0) return others.map(toLinked);
  if (meant.length > 0) return 'which is this script itself; remove that name';
  const off = disabled.filter((each) => matches(name, each.name) || matches(name, each.file));
  if (off.length > 0) return off.map((each) => ({ name: each.name, isOnEachHost: false, isDisabled: true }));
  // Only the log knows a command of `runner exec`.
  if (isExecName(name)) return [{ name, isOnEachHost: isOnServer() }];
  if (unread.includes(name.split('/', 1)[0] as string)) return [{ name, isOnEachHost: false }];
  if (handlers.some(isMeant) || name.startsWith(`${QUEUE_TIER}/`)) {
    return 'a handler of jobs, which has no end to wait for; name a script of a tier';
  }
  const nearest = nearestPath(name, [...scripts.map((each) => each.name), ...disabled.map((each) => each.name)]);
  const isGlob = /[*?[\]{}()!+@\\]/.test(name);
  const none = isGlob ? 'which fits no script' : 'and there is no such script';
  return `${none}; ${nearest === null ? '`npx folder-runner list` shows all names' : `did you mean ${nearest}?`}`;
}

function toLinked({ name, options }: Script): LinkedScript {
  return { name, isOnEachHost: options.everyHost === true || options.reboot === true };
}

/** The shortest way by which a script waits for itself, with its name at both ends; null: there is none. */
function findCircle(start: string, linked: ReadonlyMap<string, OwnLinks>): readonly string[] | null {
  const seen = new Set<string>();
  let ways: (readonly string[])[] = [[start]];
  while (ways.length > 0) {
    const next: (readonly string[])[] = [];
    for (const way of ways) {
      const scripts = linked.get(way.at(-1) as string)?.links.flatMap((each) => each.scripts) ?? [];
      for (const { name } of scripts) {
        if (name === start) return [...way, name];
        if (!seen.has(name)) next.push([...way, name]);
        seen.add(name);
      }
    }
    ways = next;
  }
  return null;
}

function describeCircle(circle: readonly string[]): string {
  return `it waits for itself: ${circle.join(' waits for ')}; remove one of these tags`;
}
