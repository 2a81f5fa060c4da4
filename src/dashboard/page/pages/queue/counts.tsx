import { countOf, formatCount } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import type { Tone } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { PauseButton, type PauseInForce } from '../../manage/pause.tsx';
import { hrefOf } from '../../router.ts';

type JobCounts = components['schemas']['JobCounts'];
type JobTotals = components['schemas']['JobTotals'];

/** In the order of a job's life. */
export const countedStates = {
  ready: 'due now',
  delayed: 'due later',
  running: 'running',
  retrying: 'to be retried',
  paused: 'wait for others',
  failed: 'failed',
  finished: 'finished',
  cancelled: 'cancelled',
} as const satisfies { readonly [State in Exclude<keyof JobCounts, 'name' | 'dueSince'>]: string };

type CountedState = keyof typeof countedStates;

export const stateKeys = Object.keys(countedStates) as CountedState[];

export function sumOf(counts: readonly JobCounts[], state: CountedState): number {
  return counts.reduce((sum, each) => sum + each[state], 0);
}

/** Tones of states that need attention. */
const tileTones: Readonly<Partial<Record<CountedState, Tone>>> = {
  failed: 'bad',
  retrying: 'warning',
  running: 'live',
};

interface StateTilesProps {
  readonly counts: readonly JobCounts[];
  /** The state that the list below shows; '': all. */
  readonly chosen: string;
}

/** How many jobs are in each state; each leads to a list of these. */
export function StateTiles({ counts, chosen }: StateTilesProps) {
  const [since] = counts.flatMap(({ dueSince }) => dueSince ?? []).toSorted();
  return (
    <nav aria-label="Jobs by state">
      <ul class="tiles">
        {stateKeys.map((state) => {
          const count = sumOf(counts, state);
          const isChosen = chosen === state;
          return (
            <li key={state}>
              <a
                class={`tile ${(count > 0 && tileTones[state]) || ''}`}
                data-empty={count === 0}
                href={hrefOf('/queue', null, isChosen ? {} : { state })}
                aria-current={isChosen ? 'true' : undefined}
              >
                <strong class="figure">{formatCount(count)}</strong>
                <span>{countedStates[state]}</span>
                {state === 'ready' && since !== undefined && (
                  <small>
                    the oldest <Time at={since} as="relative" />
                  </small>
                )}
              </a>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

interface NamesTableProps {
  readonly counts: readonly JobCounts[];
  readonly totals: readonly JobTotals[];
  readonly pauses: readonly PauseInForce[];
}

/** The jobs of each name: how many are in which state, and what became of all that ever were. */
export function NamesTable({ counts, totals, pauses }: NamesTableProps) {
  const totalsOf = new Map(totals.map((each) => [each.name, each]));
  const columns: TableColumn<JobCounts>[] = [
    {
      title: 'Name',
      isName: true,
      cell: ({ name }) => (
        <a href={hrefOf('/queue', null, { name })}>
          <Name text={name} />
        </a>
      ),
      sortBy: ({ name }) => name,
      onPhone: 'title',
    },
    ...(['ready', 'delayed', 'running', 'retrying', 'failed', 'finished'] as const).map((state) => stateColumn(state)),
    {
      title: 'oldest due',
      rank: 2,
      cell: ({ dueSince }) => (dueSince === null ? '' : <Time at={dueSince} as="relative" />),
      sortBy: ({ dueSince }) => dueSince,
    },
    {
      title: 'runs so far',
      rank: 3,
      cell: ({ name }) => describeRuns(totalsOf.get(name)),
      sortBy: ({ name }) => totalsOf.get(name)?.runs ?? null,
      isNumber: true,
    },
    {
      title: 'Pause',
      isTitleHidden: true,
      cell: ({ name }) => <PauseButton name={`queue/${name}`} pause={findPause(pauses, name)} />,
      onPhone: 'wide',
    },
  ];
  return <Table caption="Jobs by name" columns={columns} rows={counts} keyOf={({ name }) => name} />;
}

function stateColumn(state: CountedState): TableColumn<JobCounts> {
  return {
    title: countedStates[state],
    cell: (count) =>
      count[state] === 0 ? (
        <span class="quiet zero">0</span>
      ) : (
        <a class={state === 'failed' ? 'bad' : ''} href={hrefOf('/queue', null, { name: count.name, state })}>
          {formatCount(count[state])}
        </a>
      ),
    sortBy: (count) => count[state],
    isNumber: true,
  };
}

function describeRuns(totals: JobTotals | undefined): string {
  if (totals === undefined) return '–';
  const bad = totals.failed + totals.timedOut + totals.crashed;
  return bad === 0 ? formatCount(totals.runs) : `${formatCount(totals.runs)}, ${countOf(bad, 'failure')}`;
}

/** Finds the narrowest pause that holds jobs of just this name; patterns are left to the server. */
function findPause(pauses: readonly PauseInForce[], name: string): PauseInForce | null {
  const found = [`queue/${name}`, 'queue', '*'].flatMap((each) => pauses.filter((pause) => pause.name === each));
  return found[0] ?? null;
}
