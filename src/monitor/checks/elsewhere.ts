import type { IncidentRow } from '../../store/schema.ts';
import { type HostCopy, machinesOf } from '../../store/statements/registers.ts';
import type { Store } from '../../store/store.ts';
import { machineName } from '../../system/process/identity.ts';
import { recentCopies, recentMachines } from '../machines.ts';
import { type CheckCode, placeCodes } from './finding.ts';

type Fleet = Pick<Store, 'statements'>;

/** What the other machines of the fleet have: whoever runs the checks runs them for all. */
export async function readCopiesElsewhere({ statements }: Fleet, nowMs: number): Promise<readonly HostCopy[]> {
  return (await machinesOf(statements).copies(recentCopies(nowMs))).filter(({ host }) => host !== machineName());
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

async function readOthers({ statements }: Fleet, nowMs: number): Promise<ReadonlySet<string>> {
  const here = machineName();
  const others = recentMachines(await machinesOf(statements).list(), nowMs).filter(({ host }) => host !== here);
  return new Set(others.map(({ host }) => host));
}
