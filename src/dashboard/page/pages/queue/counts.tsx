import { countOf, describePace, formatCount, formatDuration } from '../../../../system/base/format.ts';
import { capitalized } from '../../../../system/base/text.ts';
import type { components } from '../../../client/paths.ts';
import { State, type Tone } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { PauseButton, type PauseInForce } from '../../manage/pause.tsx';
import { filteredHref } from '../../router.ts';

type JobCounts = components['schemas']['JobCounts'];
type JobTotals = components['schemas']['JobTotals'];
type QueuePace = components['schemas']['QueuePace'];

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

function sumOf(counts: readonly JobCounts[], state: CountedState): number {
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
  /** When the oldest due job became due that somebody processes; null: there is none, or nobody knows. */
  readonly since: string | null;
  /** The state that the list below shows; '': all. */
  readonly chosen: string;
}

/** How many jobs are in each state; each leads to a list of these. */
export function StateTiles({ counts, since, chosen }: StateTilesProps) {
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
                href={filteredHref('/queue', isChosen ? {} : { state })}
                aria-current={isChosen ? 'true' : undefined}
              >
                <strong class="figure">{formatCount(count)}</strong>
                <span>{countedStates[state]}</span>
                {state === 'ready' && since !== null && (
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

/** Do I need more workers? */
export function PaceLine({ pace: { since, until, all, names } }: { readonly pace: QueuePace }) {
  if (names.length === 0) return null;
  const minutes = Math.round((Date.parse(until ?? '') - Date.parse(since ?? '')) / 60_000);
  return (
    <p class="states workers-line">
      <State state={all.verdict === 'keeps-up' ? 'ok' : 'warning'} word={describePace(all)} />
      <span class="quiet small">
        {formatCount(all.added)} added, {formatCount(all.ended)} ended in the last {countOf(minutes, 'minute')}
        {all.waitP95Ms !== null && `, 95% began within ${formatDuration(all.waitP95Ms)}`}
      </span>
    </p>
  );
}

interface NamesTableProps {
  readonly counts: readonly JobCounts[];
  readonly totals: readonly JobTotals[];
  readonly paces: readonly QueuePace['names'][number][];
  readonly pauses: readonly PauseInForce[];
}

/** The jobs of each name: how many are in which state, and what became of all that ever were. */
export function NamesTable({ counts, totals, paces, pauses }: NamesTableProps) {
  const paceOf = new Map(paces.map((pace) => [pace.name, pace]));
  const wait = (name: string): number | null => paceOf.get(name)?.waitP95Ms ?? null;
  const totalsOf = new Map(totals.map((each) => [each.name, each]));
  const columns: TableColumn<JobCounts>[] = [
    {
      title: 'Name',
      isName: true,
      cell: ({ name }) => (
        <a href={filteredHref('/queue', { name })}>
          <Name text={name} />
        </a>
      ),
      sortBy: ({ name }) => name,
      onPhone: 'title',
    },
    ...(['ready', 'delayed', 'running'] as const).map((state) => stateColumn(state)),
    { ...stateColumn('retrying'), rank: 3 },
    stateColumn('failed'),
    { ...stateColumn('finished'), rank: 3 },
    {
      title: 'Oldest due',
      rank: 2,
      cell: ({ dueSince }) => (dueSince === null ? '' : <Time at={dueSince} as="relative" />),
      sortBy: ({ dueSince }) => dueSince,
    },
    {
      title: 'Runs so far',
      rank: 3,
      cell: ({ name }) => describeRuns(totalsOf.get(name)),
      sortBy: ({ name }) => totalsOf.get(name)?.runs ?? null,
      isNumber: true,
    },
    {
      title: 'Began within',
      rank: 0,
      cell: ({ name }) => describeWaits(paceOf.get(name)),
      sortBy: ({ name }) => wait(name),
      isNumber: true,
    },
    {
      title: 'Pause',
      isTitleHidden: true,
      cell: ({ name }) => <PauseButton name={`queue/${name}`} pause={findPause(pauses, name)} />,
      onPhone: 'wide',
    },
  ];
  return (
    <Table
      caption="Jobs by name"
      columns={columns}
      rows={counts}
      keyOf={({ name }) => name}
      below={({ name }) => {
        const pace = paceOf.get(name);
        if (pace === undefined || pace.verdict === 'keeps-up') return null;
        return <State state="warning" word={describePace(pace)} />;
      }}
    />
  );
}

function stateColumn(state: CountedState): TableColumn<JobCounts> {
  return {
    title: capitalized(countedStates[state]),
    cell: (count) =>
      count[state] === 0 ? (
        <span class="quiet zero">0</span>
      ) : (
        <a class={state === 'failed' ? 'bad' : ''} href={filteredHref('/queue', { name: count.name, state })}>
          {formatCount(count[state])}
        </a>
      ),
    sortBy: (count) => count[state],
    isNumber: true,
  };
}

/** `2s, p95 14s` */
function describeWaits(pace: QueuePace['names'][number] | undefined): string {
  return pace === undefined || pace.waitP95Ms === null
    ? '–'
    : `${formatDuration(pace.waitP50Ms)}, p95 ${formatDuration(pace.waitP95Ms)}`;
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
