import type { components } from '../../../client/paths.ts';
import { isFailedRun } from '../../components/state.tsx';

type Schemas = components['schemas'];
type Overview = Schemas['Overview'];
type Status = Schemas['Status'];

/** Where a script stands: the first of these that is true of it. */
export type Standing =
  | 'running'
  | 'paused'
  | 'failing'
  | 'retrying'
  | 'disabled'
  | 'gone'
  | 'never'
  | 'unknown'
  | 'fine';

export interface ScriptRow extends Readonly<Schemas['ScriptOverview']> {
  readonly standing: Standing;
  /** Of the CPU time of all scripts; null: not known. */
  readonly cpuShare: number | null;
  /** When it runs next; null: nobody knows. */
  readonly nextAt: string | null;
}

/** The scripts with what is known of each from elsewhere. */
export function makeRows(overview: Overview, status: Status | null): ScriptRow[] {
  const running = new Set(overview.running.flatMap(({ script, liveness }) => (liveness === 'dead' ? [] : script)));
  const calls = new Map(status?.tiers.map(({ tier, nextCall }) => [tier, nextCall]));
  const times = new Map(status?.scheduled.map(({ script, nextPass }) => [script, nextPass]));
  /** One with times of its own does not run in each pass of its tier. */
  const nextOf = ({ script, tier }: Schemas['ScriptOverview']): string | null =>
    times.get(script) ?? (times.has(script) ? null : (calls.get(tier) ?? null));
  const allCpuMs = overview.totals.cpuMs ?? 0;
  return overview.scripts.map((script) => ({
    ...script,
    standing: status?.isLogUnread ? 'unknown' : findStanding(script, running.has(script.script)),
    cpuShare: script.totalCpuMs === null || allCpuMs === 0 ? null : script.totalCpuMs / allCpuMs,
    nextAt: mayRun(script) ? (script.waiting?.runAt ?? nextOf(script)) : null,
  }));
}

function mayRun({ pause, presence }: Schemas['ScriptOverview']): boolean {
  return pause === null && presence !== 'disabled';
}

function findStanding({ pause, lastRun, waiting, presence }: Schemas['ScriptOverview'], isRunning: boolean): Standing {
  if (isRunning) return 'running';
  if (presence === 'gone' || presence === 'disabled') return presence;
  if (pause !== null) return 'paused';
  if (lastRun === null) return 'never';
  if (waiting?.state === 'retrying') return 'retrying';
  return isFailedRun(lastRun.outcome) ? 'failing' : 'fine';
}

export interface Filter {
  readonly search: string;
  /** '': all. */
  readonly tier: string;
  readonly standing: Standing | '';
}

/** Those whose name or error has all words that are looked for. */
export function filterRows(rows: readonly ScriptRow[], { search, tier, standing }: Filter): ScriptRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    if (tier !== '' && row.tier !== tier) return false;
    if (standing !== '' && row.standing !== standing) return false;
    const text = `${row.script} ${row.lastError ?? ''}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const order: readonly Standing[] = [
  'failing',
  'retrying',
  'running',
  'paused',
  'never',
  'unknown',
  'fine',
  'disabled',
  'gone',
];

/** What wants to be looked at comes first. */
export function rankOf({ standing }: ScriptRow): number {
  return order.indexOf(standing);
}
