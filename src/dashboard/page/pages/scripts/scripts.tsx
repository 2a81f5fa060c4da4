import { useState } from 'preact/hooks';
import { countOf, formatBytes, formatCount, formatDuration, formatRate } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Choice, More, SearchField } from '../../components/fields.tsx';
import { Answered, Empty, Notice, Page } from '../../components/page.tsx';
import { isFailedRun, RunOutcome, State } from '../../components/state.tsx';
import { figureColumn, Table, type TableColumn } from '../../components/table.tsx';
import { Name, RiseLines, ScriptLink, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { useQuery } from '../../data.ts';
import { RunNow } from '../../manage/run-now.tsx';
import { hrefOf, place, setQuery } from '../../router.ts';
import { siteStatus } from '../../site-status.ts';

/** All scripts: what failed comes first, each with its figures of the last days. */
export function Scripts() {
  const overview = useQuery('/api/overview', {});
  const { data: status } = siteStatus.value;
  return (
    <Page title="Scripts">
      {status?.isLogUnread && (
        <Notice tone="bad" title="The activity log cannot be read">
          <p>
            <Words text={status.logProblem ?? 'What ran is not known.'} />
          </p>
        </Notice>
      )}
      <Answered asked={overview}>{(told) => <ScriptList rows={makeRows(told, status)} since={told.since} />}</Answered>
    </Page>
  );
}

/** Number of rows shown at once: a phone draws 500 cards slowly, and nobody reads them. */
const AT_ONCE = 100;

function ScriptList({ rows, since }: { readonly rows: readonly ScriptRow[]; readonly since: string | null }) {
  const [most, setMost] = useState(AT_ONCE);
  const { q: search = '', tier = '', state = '' } = place.value.query;
  if (rows.length === 0) {
    return (
      <Empty title="There is no script yet">
        <p>
          <a href={hrefOf('/')}>What to do first</a>
        </p>
      </Empty>
    );
  }
  const found = filterRows(rows, { search, tier, standing: state as Standing | '' });
  const tiers = [...new Set(rows.map((row) => row.tier))];
  const known = standingNames.filter((each) => rows.some(({ standing }) => standing === each));
  const counted = [['', 'any'] as const, ...known.map((each) => [each, standings[each]] as const)];
  const shown = Math.min(most, found.length);
  return (
    <>
      <search class="bar">
        <SearchField label="Search names and errors" value={search} onChange={(q) => setQuery({ q })} />
        <Choice
          label="Tier"
          value={tier}
          options={[['', 'all'], ...tiers.map((name) => [name, name] as const)]}
          onChange={(chosen) => setQuery({ tier: chosen })}
        />
        <Choice label="State" value={state} options={counted} onChange={(chosen) => setQuery({ state: chosen })} />
        <span class="quiet small">
          figures since <Time at={since} as="short" />
        </span>
      </search>
      {found.length === 0 ? (
        <Empty title="No script fits these filters">
          <p>
            <button type="button" onClick={() => setQuery({ q: null, tier: null, state: null })}>
              Show all {formatCount(rows.length)}
            </button>
          </p>
        </Empty>
      ) : (
        <Table
          caption="Scripts"
          columns={columns}
          rows={found}
          keyOf={({ script }) => script}
          below={belowOf}
          sorting={{ title: 'State', isDescending: false }}
          most={most}
        />
      )}
      <More
        shown={shown === found.length ? countOf(shown, 'script') : `${shown} of ${countOf(found.length, 'script')}`}
        onMore={shown < found.length ? () => setMost(most + AT_ONCE) : null}
      />
    </>
  );
}

const columns: readonly TableColumn<ScriptRow>[] = [
  {
    ...{ title: 'Script', isName: true, onPhone: 'title' },
    cell: ({ script }) => <ScriptLink name={script} />,
    sortBy: ({ script }) => script,
  },
  { title: 'State', onPhone: 'bare', sortBy: rankOf, cell: (row) => <Standings {...row} /> },
  {
    title: 'Last run',
    sortBy: ({ lastRun }) => (lastRun?.startedAt ? -Date.parse(lastRun.startedAt) : null),
    cell: ({ lastRun }) => (lastRun === null ? '–' : <Time at={lastRun.startedAt} />),
  },
  { title: 'Last 20', rank: 3, onPhone: 'bare', cell: ({ recentRuns }) => <Sparkline runs={recentRuns} /> },
  figureColumn('Success', ({ successRate }) => successRate, formatRate),
  figureColumn('Runs', ({ runs }) => runs, formatCount, 3),
  figureColumn('p50', ({ p50DurationMs }) => p50DurationMs, formatDuration),
  figureColumn('p95', ({ p95DurationMs }) => p95DurationMs, formatDuration, 2),
  figureColumn('Memory', ({ maxRssBytes }) => maxRssBytes, formatBytes, 1),
  figureColumn('CPU', ({ cpuShare }) => cpuShare, formatRate, 1),
  {
    title: 'Next',
    isShort: true,
    sortBy: ({ nextAt }) => (nextAt === null ? null : Date.parse(nextAt)),
    cell: (row) => {
      if (isLinked(row)) return <State state="linked" />;
      return row.nextAt === null ? '–' : <Time at={row.nextAt} as="relative" />;
    },
  },
  {
    title: 'Run now',
    isTitleHidden: true,
    cell: ({ script, verbs }) => verbs.includes('run') && <RunNow script={script} />,
  },
];

function Standings({ standing, lastRun, pause }: ScriptRow) {
  const isRunShown = ['failing', 'fine', 'paused'].includes(standing) && lastRun !== null;
  return (
    <span class="states">
      {standing !== 'failing' && standing !== 'fine' && (
        <State state={standing} {...(standing === 'never' && { tone: 'ended' })} word={standings[standing]} />
      )}
      {isRunShown && <RunOutcome run={lastRun} />}
      {pause !== null && standing !== 'paused' && <State state="paused" />}
    </span>
  );
}

/** The error; or what has risen, and what a script said of itself. */
function belowOf({ lastError, lastRun, slower, heavier }: ScriptRow) {
  if (lastError !== null && lastRun !== null) {
    return (
      <a class="error-line" href={hrefOf('/runs', lastRun.id)}>
        <Name text={lastError} />
      </a>
    );
  }
  if (!lastRun?.warning && (slower ?? heavier) === null) return null;
  return (
    <div class="warning-line">
      <RiseLines slower={slower} heavier={heavier} />
      {lastRun?.warning && <Name text={lastRun.warning} />}
    </div>
  );
}

type Schemas = components['schemas'];
type Overview = Schemas['Overview'];
type Status = Schemas['Status'];

/** Standings of a script in words; those that need attention come first. */
const standings = {
  failing: 'failing',
  retrying: 'to be tried again',
  running: 'running',
  paused: 'paused',
  never: 'never run',
  unknown: 'not known',
  fine: 'fine',
  disabled: 'disabled',
  gone: 'gone',
};

type Standing = keyof typeof standings;

const standingNames = Object.keys(standings) as Standing[];

interface ScriptRow extends Readonly<Schemas['ScriptOverview']> {
  readonly standing: Standing;
  /** Share of the CPU time of all scripts; null: unknown. */
  readonly cpuShare: number | null;
  /** When it runs next; null: nobody knows. */
  readonly nextAt: string | null;
}

/** The scripts with what is known of each from elsewhere. */
function makeRows(overview: Overview, status: Status | null): ScriptRow[] {
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
    nextAt: mayRun(script) && !isLinked(script) ? (script.waiting?.runAt ?? nextOf(script)) : null,
  }));
}

/** Whether it is queued, for the ends of others. */
function isLinked({ waiting }: Schemas['ScriptOverview']): boolean {
  return waiting?.state === 'linked';
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

interface Filter {
  readonly search: string;
  /** '': all. */
  readonly tier: string;
  readonly standing: Standing | '';
}

/** Those whose name or error has all words that are looked for. */
function filterRows(rows: readonly ScriptRow[], { search, tier, standing }: Filter): ScriptRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    if (tier !== '' && row.tier !== tier) return false;
    if (standing !== '' && row.standing !== standing) return false;
    const text = `${row.script} ${row.lastError ?? ''}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function rankOf({ standing }: ScriptRow): number {
  return standingNames.indexOf(standing);
}

interface SparklineProps {
  /** Oldest first. */
  readonly runs: components['schemas']['ScriptOverview']['recentRuns'];
}

const WIDTH = 100;
const HEIGHT = 24;

/** How long runs took, as bars, the highest as high as there is room; failures also stand on a thick foot. */
export function Sparkline({ runs }: SparklineProps) {
  const known = runs.flatMap(({ durationMs }) => durationMs ?? []);
  if (known.length === 0) return null;
  const highest = Math.max(...known);
  // As wide for few runs as for many: what one sees is how they differ.
  const step = WIDTH / Math.max(runs.length, 12);
  const heightOf = (value: number): number => (highest === 0 ? 2 : Math.max(2, (value / highest) * (HEIGHT - 2)));
  const [lowest, top, last] = [Math.min(...known), highest, known.at(-1) as number].map(formatDuration);
  const text = `Durations of the last ${runs.length} runs: lowest ${lowest}, highest ${top}, last ${last}`;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={text}>
      <title>{text}</title>
      {runs.map(({ durationMs, outcome }, index) => {
        const isBad = isFailedRun(outcome);
        const height = durationMs === null ? 1 : heightOf(durationMs);
        const [x, width] = [index * step + step * 0.1, step * 0.8];
        return (
          <g key={index} class={isBad ? 'bad' : ''}>
            <rect x={x} y={HEIGHT - height} width={width} height={height} />
            {isBad && <rect class="foot" x={index * step} y={HEIGHT - 3} width={step} height={3} />}
          </g>
        );
      })}
    </svg>
  );
}
