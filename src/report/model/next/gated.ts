import { hasWindow, isOfEachPass, linksOf, mayHaveToWait, type Script } from '../../../discovery/script.ts';
import { hostOf } from '../../../queue/add/scripts.ts';
import { describeGate, foreseeOrder, type Gate, mayWait, namesOf, readGates } from '../../../queue/links.ts';
import { openingAt, ruleOf, slotAt } from '../../../schedule/script-times.ts';
import { record, shown, type Values } from '../../../system/base/record.ts';
import { inChainOrder, linkRecord } from '../chain.ts';
import { selectRunning } from '../runs/run.ts';
import { type Ahead, type Coming, filled, isPaused } from './coming.ts';
import { findCallInWindow } from './next-times.ts';

/** A queued script that waits, for longer than was asked, or nobody knows how long. */
export const waitingNextRecord = record('NextWaiting', {
  script: shown.text.like('daily/report'),
  since: shown.instant.about('When it was queued'),
  links: shown.list(shown.one(linkRecord)).about('The scripts that it waits for'),
  reason: shown.text.like('waits for daily/dump, which is disabled'),
});

export type WaitingNext = Values<typeof waitingNextRecord>;

/** A run that is foreseen with its end. */
interface Foreseen {
  readonly atMs: number;
  readonly endMs: number;
}

/** Foreseen runs by script, in ascending order. */
type Runs = Map<string, readonly Foreseen[]>;

type UsualOf = (script: string) => Promise<number | null>;

interface Gated {
  readonly items: readonly Coming[];
  readonly waiting: readonly WaitingNext[];
}

/**
 * Puts scripts that wait for others, or for their window, where they are expected: behind the usual end of those others.
 *
 * @param found all that comes, as if no script waited
 */
export async function foreseeGated(ahead: Ahead, found: readonly Coming[], usualOf: UsualOf): Promise<Gated> {
  const { store, nowMs } = ahead.site;
  const gated = inChainOrder(ahead.tiers.flatMap(({ scripts }) => scripts).filter(mayHaveToWait));
  if (gated.length === 0 || store === null) return { items: found, waiting: [] };
  const rows = await store.scriptJobs.named(gated.map(({ name }) => name));
  const rowOf = (script: Script) => rows.find(({ name, host }) => name === script.name && host === hostOf(script));
  const jobs = gated.map((script) => ({ script, job: rowOf(script) ?? { ends_used: null, scheduled_for: null } }));
  const gates = await readGates(store, store, jobs, nowMs);
  const isOf = (item: Coming, { name }: Script): boolean => item.kind === 'script' && item.name === name;
  const items = found.filter((item) => !gated.some((script) => isOf(item, script)));
  const runs = await foreseeRuns(ahead, { items, gated, gates, usualOf });
  const waiting: WaitingNext[] = [];
  for (const script of gated) {
    const row = rowOf(script);
    const queued = row !== undefined && mayWait(row, script) ? row : null;
    const arms = found
      .filter((item) => isOf(item, script))
      .map((item) => ({ ...item, slotMs: item.dueMs ?? item.atMs }));
    const now = { ...filled(ahead, { kind: 'script', name: script.name, reason: 'after' }, nowMs) };
    const gate = gates.get(script.name) as Gate;
    const all = queued === null ? arms : [{ ...now, slotMs: queued.scheduled_for }, ...arms];
    const coming = await runGated(ahead, { script, gate, isQueued: queued !== null, arms: all, runs });
    items.push(...coming);
    const usualMs = await usualOf(script.name);
    const own = coming.filter((item) => usualMs !== null && !item.isPaused);
    addRuns(
      runs,
      script.name,
      own.map(({ atMs }) => ({ atMs, endMs: atMs + (usualMs ?? 0) })),
    );
    if (queued === null || coming.length > 0) continue;
    const reason = describeGate(gate, script.options, ahead.pauses);
    waiting.push({ script: script.name, sinceMs: queued.run_at, links: linksOf(script), reason });
  }
  return { items, waiting };
}

function addRuns(runs: Runs, script: string, more: readonly Foreseen[]): void {
  const all = [...(runs.get(script) ?? []), ...more];
  runs.set(
    script,
    all.toSorted((one, other) => one.endMs - other.endMs),
  );
}

interface Known extends Pick<Gated, 'items'> {
  readonly gated: readonly Script[];
  readonly gates: ReadonlyMap<string, Gate>;
  readonly usualOf: UsualOf;
}

/** Runs of the scripts that others wait for: of those that wait for nothing, and of those that a pass runs behind them. */
async function foreseeRuns(ahead: Ahead, { items, gated, gates, usualOf }: Known): Promise<Runs> {
  const { site, tiers } = ahead;
  const awaited = new Set(gated.flatMap(({ links }) => namesOf(links)));
  const found: (Foreseen & { readonly script: string })[] = [];
  for (const { script, startedAtMs: atMs, liveness } of await selectRunning(await site.view())) {
    const usualMs = liveness === 'dead' || !awaited.has(script) ? null : await usualOf(script);
    if (usualMs !== null) found.push({ script, atMs, endMs: Math.max(atMs + usualMs, site.nowMs + 1) });
  }
  const orders = new Map(
    tiers.map(({ name, scripts }) => [name, foreseeOrder(scripts.filter(isOfEachPass), gates)] as const),
  );
  for (const { kind, name, atMs } of items) {
    const order = kind === 'tier' ? (orders.get(name) ?? []) : kind === 'script' ? [name] : [];
    if (!order.some((script) => awaited.has(script))) continue;
    let beginMs = atMs;
    for (const script of order) {
      const usualMs = await usualOf(script);
      if (usualMs === null || isPaused(ahead, script, beginMs)) continue;
      if (awaited.has(script)) found.push({ script, atMs: beginMs, endMs: beginMs + usualMs });
      beginMs += usualMs;
    }
  }
  const runs: Runs = new Map();
  for (const [script, ofScript] of Map.groupBy(found, (run) => run.script)) addRuns(runs, script, ofScript);
  return runs;
}

/** Something that queues a script, and the time for which. */
interface Arm extends Coming {
  readonly slotMs: number | null;
}

interface GatedScript {
  readonly script: Script;
  readonly gate: Gate;
  /** The first arm is that it is queued now. */
  readonly isQueued: boolean;
  readonly arms: readonly Arm[];
  readonly runs: Runs;
}

/** Its runs: what queues it while it waits is one run. None if it waits now, and nobody knows how long. */
async function runGated(ahead: Ahead, gated: GatedScript): Promise<Coming[]> {
  const coming: Coming[] = [];
  const links = linksOf(gated.script);
  for (const [index, arm] of gated.arms.entries()) {
    const isNow = gated.isQueued && index === 0;
    const { slotMs: _, ...item } = arm;
    const beforeMs = coming.at(-1)?.atMs ?? null;
    if (beforeMs !== null && item.atMs <= beforeMs) continue;
    const found = await foreseeRun(ahead, gated, { arm, beforeMs, isNow });
    if (found === null && isNow) return [];
    const { atMs, reason } = found ?? item;
    const dueMs = atMs === item.atMs || isNow ? item.dueMs : (item.dueMs ?? item.atMs);
    const lastMs = atMs === item.atMs ? item.lastMs : atMs;
    coming.push({ ...item, links, dueMs, atMs, reason, lastMs, isPaused: isPaused(ahead, gated.script.name, atMs) });
  }
  return coming.filter(({ atMs }) => atMs <= ahead.untilMs);
}

interface RunOf {
  readonly arm: Arm;
  /** When the run before begins; null: there is none. */
  readonly beforeMs: number | null;
  readonly isNow: boolean;
}

/** When and why it runs: never, if no call comes into its window. Null: nobody knows. */
async function foreseeRun(
  ahead: Ahead,
  gated: GatedScript,
  of: RunOf,
): Promise<Pick<Coming, 'atMs' | 'reason'> | null> {
  const { nowMs } = ahead.site;
  const { script, gate } = gated;
  const { arm, isNow } = of;
  const ends = await foreseeEnds(gated, of, nowMs);
  if (ends === null) return null;
  const heldMs = isNow ? (gate.hold?.untilMs ?? 0) : 0;
  const readyMs = Math.max(arm.atMs, ends.endMs, heldMs, await lapseOf(gated.script, arm, ends));
  const openMs = await openingAt(script.options, readyMs);
  const isAtWork = isNow && ahead.holders.some(({ tier }) => tier === script.tier);
  if (openMs === arm.atMs && (!isNow || isAtWork)) return { atMs: arm.atMs, reason: arm.reason };
  const reason = openMs > readyMs || (isNow && gate.hold?.cause === 'window') ? 'window' : 'after';
  // The pass that ends the others goes on with it.
  if (openMs === ends.endMs) return { atMs: openMs, reason };
  const callMs = await findCallInWindow(script, ahead.states, openMs);
  if (callMs !== null) return { atMs: callMs, reason };
  return hasWindow(script) ? { atMs: Number.POSITIVE_INFINITY, reason } : null;
}

interface Ends {
  /** The last of the ends that it waits for; 0: they have come. */
  readonly endMs: number;
  /** The first beginning of those runs; null: they have come. */
  readonly beganMs: number | null;
}

/** Ends that the run before has not used. A failure cannot be foreseen. */
async function foreseeEnds(
  { script, gate, runs }: GatedScript,
  { arm, beforeMs }: RunOf,
  nowMs: number,
): Promise<Ends | null> {
  // Others decide no more once it was tried, or has begun to be.
  const links = ['schedule', 'after'].includes(arm.reason) ? linksOf(script) : [];
  const left = links.filter(
    (link) => beforeMs !== null || gate.waits.some((wait) => wait.kind === link.kind && wait.script === link.script),
  );
  const found = left.map(({ kind, script: other }) =>
    kind === 'afterFailure' ? undefined : runs.get(other)?.find(({ endMs }) => endMs > (beforeMs ?? nowMs)),
  );
  if (found.includes(undefined)) return null;
  const known = found.filter((run) => run !== undefined);
  return {
    endMs: Math.max(0, ...known.map(({ endMs }) => endMs)),
    beganMs: known.length === 0 ? null : Math.min(...known.map(({ atMs }) => atMs)),
  };
}

/** The next time of its schedule, if others begin on the day of that one; 0: they do not, or it has none. */
async function lapseOf({ options }: Script, { atMs, slotMs }: Arm, { endMs, beganMs }: Ends): Promise<number> {
  const rule = ruleOf(options);
  if (rule === null || options.reboot || slotMs === null || beganMs === null || endMs <= atMs) return 0;
  const { lapsesMs, nextMs } = await slotAt(rule, slotMs, endMs);
  return lapsesMs !== null && lapsesMs <= beganMs ? (nextMs ?? 0) : 0;
}
