import type { HostCopy } from '../../store/contract/registers.ts';
import type { Store } from '../../store/contract/store.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { machineName } from '../../system/process/identity.ts';
import { recentCopies, recentMachines } from '../machines.ts';
import { type CheckCode, placeCodes } from './finding.ts';

type Fleet = Pick<Store, 'machines'>;

/** What the other machines of the fleet have: whoever runs the checks runs them for all. */
export async function readCopiesElsewhere({ machines }: Fleet, nowMs: number): Promise<readonly HostCopy[]> {
  return (await machines.copies(recentCopies(nowMs))).filter(({ host }) => host !== machineName());
}

/** Of which incidents this machine knows whether they go on: of all, but not of another one's own. */
export async function readKnownHere(
  store: Fleet,
  nowMs: number,
  checked: readonly CheckCode[],
): Promise<(incident: IncidentRow) => boolean> {
  const others = await readOthers(store, nowMs);
  const has = (codes: readonly string[], code: string): boolean => codes.includes(code);
  return ({ code, subject }) =>
    has(checked, code) && !(has(placeCodes, code) && others.has(subject.slice(subject.indexOf('@') + 1)));
}

async function readOthers({ machines }: Fleet, nowMs: number): Promise<ReadonlySet<string>> {
  const here = machineName();
  const others = recentMachines(await machines.list(), nowMs).filter(({ host }) => host !== here);
  return new Set(others.map(({ host }) => host));
}
