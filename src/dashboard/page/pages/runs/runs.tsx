import { countOf, formatBytes, formatDuration } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Choice, Listed, readRange, SearchField, SinceChoice } from '../../components/fields.tsx';
import { Empty, Page } from '../../components/page.tsx';
import { FAILED, RunOutcome, runOutcomes, wordsOfState } from '../../components/state.tsx';
import { figureColumn, Table, type TableColumn } from '../../components/table.tsx';
import { Name, RunLink, ScriptLink, Words } from '../../components/text.tsx';
import { Elapsed, Time } from '../../components/time.tsx';
import { useList } from '../../data.ts';
import { filteredHref, isFiltered, place, setQuery } from '../../router.ts';

/** All runs of all scripts, the newest first. */
export function RunsPage() {
  const { script, outcome, search, ...times } = place.value.query;
  const filter = { script: script || undefined, outcome: outcome || undefined, search: search || undefined };
  return (
    <Page title="Runs">
      <div class="bar">
        <SearchField
          label="Script, error or number"
          value={search ?? ''}
          onChange={(value) => setQuery({ search: value })}
        />
        <OutcomeChoice />
        <SinceChoice label="Started" />
        {script && (
          <span>
            only <Name text={script} /> · <a href={filteredHref('/runs', { outcome: outcome ?? null })}>all</a>
          </span>
        )}
      </div>
      <Runs query={{ ...filter, ...readRange(times), limit: 100 }} />
    </Page>
  );
}

const choices = [
  ['', 'any'],
  [FAILED, 'failed in any way'],
  ...runOutcomes.map((outcome) => [outcome, wordsOfState(outcome)] as const),
] as const;

/** Which outcomes are shown; kept in the address. */
export function OutcomeChoice() {
  return (
    <Choice
      label="Outcome"
      value={place.value.query.outcome ?? ''}
      options={choices}
      onChange={(outcome) => setQuery({ outcome })}
    />
  );
}

type Run = components['schemas']['ToldRun'];

interface RunsProps {
  /** Which runs, as the API takes it. */
  readonly query: Readonly<Record<string, string | number | undefined>>;
  /** All are of one script, which need not be named. */
  readonly isOfOne?: boolean;
}

/** Runs as a table, with a way to older ones. */
export function Runs({ query, isOfOne = false }: RunsProps) {
  const list = useList('/api/runs', query, true);
  const none = list.isCut
    ? 'This report holds no such runs; the command line shows all.'
    : isFiltered()
      ? 'There are no such runs.'
      : isOfOne
        ? 'It has not run yet.'
        : 'Nothing has run yet.';
  const shown = isOfOne ? columns.filter(({ title }) => title !== 'Script') : columns;
  return (
    <Listed list={list} none={<Empty title={none} />} shown={(count) => countOf(count, 'run')}>
      {(runs) => (
        <Table caption="Runs, the newest first" columns={shown} rows={runs} keyOf={({ id }) => id} below={noteOf} />
      )}
    </Listed>
  );
}

const columns: readonly TableColumn<Run>[] = [
  { title: 'Run', isShort: true, cell: ({ id }) => <RunLink id={id} />, sortBy: ({ id }) => id, onPhone: 'title' },
  {
    ...{ title: 'Script', isName: true, onPhone: 'wide' },
    cell: ({ script }) => <ScriptLink name={script} />,
    sortBy: ({ script }) => script,
  },
  {
    title: 'Outcome',
    cell: (run) => (
      <>
        <RunOutcome run={run} /> {run.attempt > 1 && <span class="quiet small">try {run.attempt}</span>}
      </>
    ),
    sortBy: ({ outcome }) => outcome,
  },
  { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} />, sortBy: ({ startedAt }) => startedAt },
  {
    ...figureColumn('Duration', ({ durationMs }: Run) => durationMs, formatDuration),
    cell: (run) => (run.outcome === 'running' ? <Elapsed since={run.startedAt} /> : formatDuration(run.durationMs)),
  },
  figureColumn('CPU', cpuOf, formatDuration, 3),
  figureColumn('Memory', ({ maxRssBytes }) => maxRssBytes, formatBytes, 3),
  { ...figureColumn('Output', ({ outputBytes }: Run) => outputBytes, formatBytes, 2), onPhone: 'none' },
];

/** User and system time together; null: neither is known. */
export function cpuOf({ userCpuMs, systemCpuMs }: Run): number | null {
  return userCpuMs === null && systemCpuMs === null ? null : (userCpuMs ?? 0) + (systemCpuMs ?? 0);
}

/** Why it failed, or in what it was unusual. */
function noteOf({ summary, unusual, warning }: Run) {
  const notes = [summary, ...unusual, warning].filter((note): note is string => Boolean(note));
  if (notes.length === 0) return null;
  return (
    <span class="quiet small">
      <Words text={notes.join('\n').replaceAll('\n', ' · ')} />
    </span>
  );
}
