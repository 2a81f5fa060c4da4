import { useState } from 'preact/hooks';
import { countOf, formatBytes, formatCount, formatDuration, formatRate } from '../../../../system/base/format.ts';
import { Choice, More, SearchField } from '../../components/fields.tsx';
import { Answered, Empty, Notice } from '../../components/notice.tsx';
import { Page } from '../../components/page.tsx';
import { Sparkline } from '../../components/sparkline.tsx';
import { isFailedRun, RunOutcome, State } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { useAnswer } from '../../data.ts';
import { RunNow } from '../../manage/run-now.tsx';
import { hrefOf, place, setQuery } from '../../router.ts';
import { filterRows, makeRows, rankOf, type ScriptRow, type Standing } from './rows.ts';

/** All scripts: what failed comes first, each with its figures of the last days. */
export function Scripts() {
  const overview = useAnswer('/api/overview', {});
  const status = useAnswer('/api/status', {});
  return (
    <Page title="Scripts">
      {status.data?.isLogUnread && (
        <Notice tone="bad" title="The activity log cannot be read">
          <p>
            <Words text={status.data.logProblem ?? 'What ran is not known.'} />
          </p>
        </Notice>
      )}
      <Answered asked={overview}>
        {(told) => <ScriptList rows={makeRows(told, status.data)} since={told.since} />}
      </Answered>
    </Page>
  );
}

const standings = [
  ['', 'any'],
  ['failing', 'failing'],
  ['retrying', 'to be tried again'],
  ['running', 'running'],
  ['paused', 'paused'],
  ['fine', 'fine'],
  ['never', 'never run'],
  ['disabled', 'disabled'],
  ['gone', 'gone from jobs/'],
  ['unknown', 'not known'],
] as const satisfies readonly (readonly [Standing | '', string])[];

/** So many at once: a phone draws 500 cards slowly, and nobody reads them. */
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
  const counted = standings.filter(([each]) => each === '' || rows.some(({ standing }) => standing === each));
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
    title: 'Script',
    isName: true,
    onPhone: 'title',
    sortBy: ({ script }) => script,
    cell: ({ script }) => (
      <a href={hrefOf('/scripts', script)}>
        <Name text={script} />
      </a>
    ),
  },
  { title: 'State', onPhone: 'bare', sortBy: rankOf, cell: (row) => <Standings {...row} /> },
  {
    title: 'Last run',
    sortBy: ({ lastRun }) => (lastRun?.startedAt ? -Date.parse(lastRun.startedAt) : null),
    cell: ({ lastRun }) => (lastRun === null ? '–' : <Time at={lastRun.startedAt} />),
  },
  { title: 'Last 20', rank: 3, onPhone: 'bare', cell: (row) => <Spark {...row} /> },
  {
    title: 'Success',
    isNumber: true,
    sortBy: ({ successRate }) => successRate,
    cell: ({ successRate }) => formatRate(successRate),
  },
  { title: 'Runs', rank: 3, isNumber: true, sortBy: ({ runs }) => runs, cell: ({ runs }) => formatCount(runs) },
  {
    title: 'p50',
    isNumber: true,
    sortBy: ({ p50DurationMs }) => p50DurationMs,
    cell: ({ p50DurationMs }) => formatDuration(p50DurationMs),
  },
  {
    title: 'p95',
    rank: 2,
    isNumber: true,
    sortBy: ({ p95DurationMs }) => p95DurationMs,
    cell: ({ p95DurationMs }) => formatDuration(p95DurationMs),
  },
  {
    title: 'Memory',
    rank: 1,
    isNumber: true,
    sortBy: ({ maxRssBytes }) => maxRssBytes,
    cell: ({ maxRssBytes }) => formatBytes(maxRssBytes),
  },
  {
    title: 'CPU',
    rank: 1,
    isNumber: true,
    sortBy: ({ cpuShare }) => cpuShare,
    cell: ({ cpuShare }) => formatRate(cpuShare),
  },
  {
    title: 'Next',
    sortBy: ({ nextAt }) => (nextAt === null ? null : Date.parse(nextAt)),
    cell: ({ nextAt }) => (nextAt === null ? '–' : <Time at={nextAt} as="relative" />),
  },
  {
    title: 'Run now',
    isTitleHidden: true,
    cell: ({ script, tier, presence }) => presence === 'present' && tier !== 'queue' && <RunNow script={script} />,
  },
];

function Standings({ standing, lastRun, pause }: ScriptRow) {
  const isPausedBesides = pause !== null && standing !== 'paused';
  return (
    <span class="states">
      {standing === 'running' && <State state="running" />}
      {standing === 'never' && <State state="never" tone="ended" word="never run" />}
      {standing === 'unknown' && <State state="unknown" word="not known" />}
      {(standing === 'gone' || standing === 'disabled') && <State state={standing} />}
      {standing === 'paused' && <State state="paused" />}
      {standing === 'retrying' && <State state="retrying" word="to be tried again" />}
      {(standing === 'failing' || standing === 'fine' || standing === 'paused') && lastRun !== null && (
        <RunOutcome run={lastRun} />
      )}
      {isPausedBesides && <State state="paused" />}
    </span>
  );
}

function Spark({ recentRuns }: ScriptRow) {
  const points = recentRuns.map(({ durationMs, outcome }) => ({ value: durationMs, isBad: isFailedRun(outcome) }));
  return <Sparkline points={points} label={`Durations of the last ${points.length} runs`} />;
}

/** The error, and what a script said of itself. */
function belowOf({ lastError, lastRun }: ScriptRow) {
  if (lastError !== null && lastRun !== null) {
    return (
      <a class="error-line" href={hrefOf('/runs', lastRun.id)}>
        <Name text={lastError} />
      </a>
    );
  }
  return lastRun?.warning ? (
    <span class="warning-line">
      <Name text={lastRun.warning} />
    </span>
  ) : null;
}
