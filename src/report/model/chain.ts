import { type Link, linkKinds, linksOf, type Script } from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import { type Gate, mayWait, namesOf, readGates } from '../../queue/links.ts';
import { findPause } from '../../queue/pauses.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import { record, shown, type Values } from '../../system/base/record.ts';
import { compareBytes } from '../../system/base/values.ts';
import { type ChainState, chainStates } from '../../system/base/wait-words.ts';

/** The end of another script that one waits for. */
export const linkRecord = record('ChainLink', {
  kind: shown.words(linkKinds, 'LinkKind'),
  script: shown.text.like('daily/dump'),
});

/** A script of a chain. */
const chainScriptRecord = record('ChainScript', {
  script: shown.text.like('daily/report'),
  state: shown.words(chainStates, 'ChainState'),
  at: shown.instant.orNull.about(
    'When it ended, began, was queued, or is tried again; null: it never ran, is paused or disabled',
  ),
  level: shown.integer.about('Links on the longest way from a script that waits for none'),
  links: shown.list(
    shown.one(
      record('ChainLinkStand', {
        ...linkRecord.fields,
        isAwaited: shown.flag.about('It is queued, and this end has not come yet'),
      }),
    ),
  ),
});

/** A script with those that it waits for, and those that wait for it, also by way of others. */
export const chainRecord = record('Chain', {
  scripts: shown.list(shown.one(chainScriptRecord)).about('Each behind those that it waits for'),
  more: shown.integer.about('How many further scripts belong to it'),
});

export type Chain = Values<typeof chainRecord>;
export type ChainScript = Chain['scripts'][number];

/** Most scripts on each side: more would be no small picture. */
const MOST_ON_A_SIDE = 15;

/** Null: the script waits for none, and none waits for it. */
export async function readChain(
  site: Pick<Site, 'jobs' | 'store' | 'problem' | 'pauses' | 'nowMs'>,
  script: string,
): Promise<Chain | null> {
  const { store } = site;
  const { discovery } = await site.jobs();
  const linked = discovery.tiers.flatMap(({ scripts }) => scripts).filter(({ links }) => links !== undefined);
  const { members, more } = findMembers(script, linked);
  if (members.length === 1) return null;
  const own = new Map(linked.filter(({ name }) => members.includes(name)).map((each) => [each.name, each]));
  const rows = (await store?.scriptJobs.named(members)) ?? [];
  const isAwaited = await readAwaited(site, own, rows);
  const pauses = await site.pauses();
  const all = [...own.values()].flatMap(({ links = [] }) => links).flatMap(({ scripts }) => scripts);
  const disabled = new Set(all.filter((each) => each.isDisabled).map(({ name }) => name));
  const levels = new Map<string, number>();
  const scripts = members.map((name): ChainScript => {
    const isPaused = findPause(pauses, name) !== null;
    const held = disabled.has(name) ? 'disabled' : isPaused ? 'paused' : null;
    const stand = site.problem === null ? standOf(rows.filter((row) => row.name === name)) : notKnown;
    return {
      script: name,
      ...(held === null || stand.state === 'running' ? stand : { state: held, atMs: null }),
      level: findLevel(name, own, levels),
      links: linksOf(own.get(name) ?? {})
        .filter((link) => members.includes(link.script))
        .map((link) => ({ ...link, isAwaited: isAwaited(name, link.kind, link.script) })),
    };
  });
  const inOrder = (one: ChainScript, other: ChainScript): number =>
    one.level - other.level || compareBytes(one.script, other.script);
  return { scripts: scripts.toSorted(inOrder), more };
}

function findMembers(script: string, linked: readonly Script[]) {
  const before = new Map(linked.map(({ name, links }) => [name, namesOf(links)]));
  const behind = Map.groupBy(
    linked.flatMap(({ name, links }) => namesOf(links).map((other) => ({ name, other }))),
    ({ other }) => other,
  );
  const sides = [
    reach(script, (name) => before.get(name) ?? []),
    reach(script, (name) => behind.get(name)?.map((each) => each.name) ?? []),
  ];
  const members = [script, ...sides.flatMap((side) => side.slice(0, MOST_ON_A_SIDE))];
  return { members, more: 1 + sides.flat().length - members.length };
}

/** All that a way leads to, the nearest first. */
function reach(start: string, next: (name: string) => readonly string[]): readonly string[] {
  const found = new Set([start]);
  // A set goes on with what is added meanwhile.
  for (const name of found) for (const other of next(name)) found.add(other);
  return [...found].slice(1);
}

/** A script that waits for itself is refused, so each way ends. */
function findLevel(name: string, own: ReadonlyMap<string, Script>, levels: Map<string, number>): number {
  const known = levels.get(name);
  if (known !== undefined) return known;
  const script = own.get(name);
  const level = Math.max(-1, ...namesOf(script?.links).map((other) => findLevel(other, own, levels))) + 1;
  levels.set(name, level);
  return level;
}

/** Each behind those of them that it waits for. */
export function inChainOrder(scripts: readonly Script[]): readonly Script[] {
  const own = new Map(scripts.map((each) => [each.name, each]));
  const levels = new Map<string, number>();
  return scripts.toSorted((one, other) => findLevel(one.name, own, levels) - findLevel(other.name, own, levels));
}

/** Which ends keep a queued script from running now. */
async function readAwaited(
  { store, nowMs }: Pick<Site, 'store' | 'nowMs'>,
  own: ReadonlyMap<string, Script>,
  rows: readonly ScriptJobRow[],
) {
  const queued = rows.flatMap((job) => {
    const script = own.get(job.name);
    return script !== undefined && mayWait(job, script) ? [{ job, script }] : [];
  });
  const gates: ReadonlyMap<string, Gate> = store === null ? new Map() : await readGates(store, store, queued, nowMs);
  return (name: string, kind: Link['kind'], other: string): boolean =>
    gates.get(name)?.waits.some((wait) => wait.kind === kind && wait.script === other) ?? false;
}

const notKnown = { state: 'unknown', atMs: null } as const;

/** A script with a row for each machine takes the state of the row that is first in the order of `chainStates`. */
function standOf(rows: readonly ScriptJobRow[]): Pick<ChainScript, 'state' | 'atMs'> {
  const rank = (row: ScriptJobRow): number => chainStates.indexOf(stateOf(row));
  const [row] = rows.toSorted((one, other) => rank(one) - rank(other));
  if (row === undefined) return { state: 'never', atMs: null };
  const begunAt = row.state === 'running' ? row.started_at : null;
  return { state: stateOf(row), atMs: row.finished_at ?? begunAt ?? row.run_at };
}

function stateOf({ state, links_met }: ScriptJobRow): ChainState {
  if (state === 'queued' && links_met === 0) return 'waiting';
  if (state === 'finished') return 'succeeded';
  if (state === 'cancelled') return 'stopped';
  return state === 'claimed' ? 'queued' : state;
}
