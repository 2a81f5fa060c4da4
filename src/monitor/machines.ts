import {
  type CopiesOf,
  type HostBoot,
  type HostCopy,
  isCopyFor,
  type Machine,
  machinesOf,
} from '../store/statements/registers.ts';
import type { Store } from '../store/store.ts';
import { bootOf, machineName } from '../system/process/identity.ts';

/** A machine is away if it was not seen for this long: it has no duties, and its incidents are not reported. */
const SEEN_WITHIN_MS = 7 * 86_400_000;

/** The copies that machines have which were seen lately. */
const recentCopies = (nowMs: number) => ({ seenAfter: nowMs - SEEN_WITHIN_MS }) satisfies CopiesOf;

/** Those that were seen lately. */
export function recentMachines<M extends Pick<Machine, 'seenAt'>>(machines: readonly M[], nowMs: number): readonly M[] {
  const { seenAfter } = recentCopies(nowMs);
  return machines.filter(({ seenAt }) => seenAt > seenAfter);
}

type Fleet = Pick<Store, 'statements'>;

const isOther = ({ host }: { readonly host: string }): boolean => host !== machineName();

/** The copies of scripts that the other machines of the fleet have. */
export async function copiesElsewhere({ statements }: Fleet, nowMs: number): Promise<readonly HostCopy[]> {
  return (await machinesOf(statements).copies(recentCopies(nowMs))).filter(isOther);
}

/** Which scripts differ between the machines of a fleet, one sentence each; of a log that no others share, none. */
export async function readDifferences(store: Fleet & Pick<Store, 'fleet'>, nowMs: number): Promise<readonly string[]> {
  return store.fleet === null ? [] : compareCopies(await machinesOf(store.statements).copies(recentCopies(nowMs)));
}

/** The names of the other machines of the fleet. */
export async function machinesElsewhere({ statements }: Fleet, nowMs: number): Promise<readonly string[]> {
  const recent = recentMachines(await machinesOf(statements).list(), nowMs);
  return recent.filter(isOther).map(({ host }) => host);
}

/** The names that several machines have: after a reboot, the boot before it starts no worker any more. */
export function findSharedNames(boots: readonly HostBoot[]): string[] {
  return [...Map.groupBy(boots, ({ host }) => host)].flatMap(([host, own]) => {
    const known = own.filter(({ bootId }) => bootId !== null);
    const isShared = known.some((one) =>
      known.some((other) => bootOf(other.bootId) !== bootOf(one.bootId) && isBetween(other.firstWorker, one)),
    );
    return isShared ? [host] : [];
  });
}

const isBetween = (worker: number, { firstWorker, lastWorker }: HostBoot): boolean =>
  firstWorker < worker && worker < lastWorker;

/**
 * Which scripts these machines do not have alike, one sentence each: one is missing on some, or is another one there. A
 * machine is asked only for the tiers that it runs, and for scripts that are for it.
 */
export function compareCopies(copies: readonly HostCopy[]): string[] {
  const byTier = Map.groupBy(copies, ({ tier }) => tier);
  return [...byTier.values()].flatMap((ofTier) => {
    const callers = [...new Set(ofTier.map(({ host }) => host))];
    return [...Map.groupBy(ofTier, ({ name }) => name)].flatMap(([name, own]) => compareScript(name, own, callers));
  });
}

function compareScript(name: string, copies: readonly HostCopy[], callers: readonly string[]): string[] {
  const isFor = (host: string): boolean => copies.every((copy) => isCopyFor(copy, host));
  const missing = callers.filter((host) => isFor(host) && !copies.some((copy) => copy.host === host));
  const known = copies.filter(({ host, contentHash }) => isFor(host) && contentHash !== null);
  const [usual, ...others] = [...Map.groupBy(known, ({ contentHash }) => contentHash).values()].toSorted(
    (one, other) => other.length - one.length,
  );
  const differing = others.flat().map(({ host }) => host);
  return [
    ...(missing.length > 0 ? [`${name} is missing on ${listOf(missing)}`] : []),
    ...(differing.length > 0
      ? [`${name} on ${listOf(differing)} is not the same as on ${listOf((usual ?? []).map(({ host }) => host))}`]
      : []),
  ];
}

const MOST_NAMES = 5;

function listOf(hosts: readonly string[]): string {
  const sorted = hosts.toSorted();
  const more = sorted.length - MOST_NAMES;
  return more > 0 ? `${sorted.slice(0, MOST_NAMES).join(', ')} and ${more} more` : sorted.join(', ');
}
