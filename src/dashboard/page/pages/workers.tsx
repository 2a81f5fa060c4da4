import { countOf, formatDuration } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import { Choice, Listed } from '../components/fields.tsx';
import { Empty, Loading, Page, Section } from '../components/page.tsx';
import { State } from '../components/state.tsx';
import { figureColumn, Table, type TableColumn } from '../components/table.tsx';
import { Name, RunLink, Words } from '../components/text.tsx';
import { Elapsed, Time } from '../components/time.tsx';
import { useList } from '../data.ts';
import { hrefOf, isFiltered, place, setQuery } from '../router.ts';

type Worker = components['schemas']['Worker'];
type WorkerAtWork = components['schemas']['WorkerAtWork'];
type Waiter = components['schemas']['Waiter'];

const states: readonly (readonly [value: string, words: string])[] = [
  ['', 'any'],
  ['running', 'at work'],
  ['finished', 'finished'],
  ['skipped', 'skipped'],
  ['crashed', 'died'],
];

/** Workers at work, processes that wait for jobs, and past workers: passes of tiers and workers of the queue. */
export function Workers() {
  const { state = '' } = place.value.query;
  const list = useList('/api/workers', { state: state || undefined, limit: 50 });
  const [newest] = list.pages;
  const { atWork, waiting } = newest ?? { atWork: [], waiting: [] };
  return (
    <Page title="Workers">
      <Section title="Now">
        {newest === undefined && list.problem === null && <Loading />}
        {newest !== undefined && atWork.length + waiting.length === 0 && <Empty title="Nobody is at work." />}
        {atWork.length > 0 && <AtWork workers={atWork} />}
        {waiting.length > 0 && <Waiting waiting={waiting} />}
      </Section>
      <Section
        title="So far"
        aside={<Choice label="State" value={state} options={states} onChange={(value) => setQuery({ state: value })} />}
      >
        <Listed
          list={list}
          none={<Empty title={isFiltered() ? 'There are none of that kind.' : 'No pass and no worker has run yet.'} />}
          shown={(count) => countOf(count, 'worker')}
        >
          {(workers) => <SoFar workers={workers} />}
        </Listed>
      </Section>
    </Page>
  );
}

/** `pass of hourly`, `hourly by hand`, `worker of the queue`. */
function describeWorker({ kind, tier }: Worker): string {
  if (kind === 'queue' || tier === null) return 'worker of the queue';
  if (tier.startsWith('exec/')) return `call of ${tier}`;
  return { tier: `pass of ${tier}`, script: `script of ${tier}, by hand`, backlog: `what was left of ${tier}` }[kind];
}

const triggerWords: Readonly<Record<Worker['trigger'], string>> = {
  cron: 'cron',
  due: 'runner due',
  manual: 'by hand',
};

const common: readonly TableColumn<Worker>[] = [
  {
    title: 'Who',
    isName: true,
    cell: (worker) => <a href={hrefOf('/activity', null, { worker: String(worker.id) })}>{describeWorker(worker)}</a>,
    onPhone: 'title',
  },
  {
    title: 'State',
    cell: ({ state, liveness }) =>
      state === 'crashed' || (state === 'running' && liveness === 'dead') ? (
        <State state="crashed" word="died" />
      ) : (
        <State state={state} />
      ),
  },
];

const processColumn: TableColumn<{ readonly pid: number; readonly host: string }> = {
  title: 'Process',
  cell: ({ pid, host }) => (
    <>
      pid {pid} on <Name text={host} />
    </>
  ),
};

const triggerColumn: TableColumn<Worker> = {
  title: 'Called by',
  cell: ({ trigger, by }) => by ?? triggerWords[trigger],
};

function AtWork({ workers }: { readonly workers: readonly WorkerAtWork[] }) {
  const columns: readonly TableColumn<WorkerAtWork>[] = [
    ...common,
    { title: 'For', cell: ({ startedAt }) => <Elapsed since={startedAt} />, isNumber: true },
    {
      title: 'Runs now',
      cell: ({ runs }) =>
        runs.map(({ id, script }) => (
          <div key={id}>
            <RunLink id={id}>
              <Name text={script} />
            </RunLink>
          </div>
        )),
    },
    processColumn,
    triggerColumn,
  ];
  return <Table caption="Who is at work" columns={columns} rows={workers} keyOf={({ id }) => id} />;
}

const waitingColumns: readonly TableColumn<Waiter>[] = [
  {
    title: 'Waits for',
    isName: true,
    cell: ({ patterns }) => <Name text={patterns.length === 0 ? 'any job' : patterns.join(', ')} />,
    onPhone: 'title',
  },
  { title: 'For', cell: ({ since }) => <Elapsed since={since} />, isNumber: true },
  processColumn,
];

function Waiting({ waiting }: { readonly waiting: readonly Waiter[] }) {
  return (
    <Table
      caption="Other processes that wait for jobs"
      columns={waitingColumns}
      rows={waiting}
      keyOf={({ host, pid }) => `${host} ${pid}`}
    />
  );
}

function SoFar({ workers }: { readonly workers: readonly Worker[] }) {
  const columns: readonly TableColumn<Worker>[] = [
    ...common,
    { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} /> },
    figureColumn('Took', durationOf, formatDuration),
    processColumn,
    triggerColumn,
  ];
  const reasonOf = ({ reason }: Worker) =>
    reason && (
      <span class="small quiet">
        <Words text={reason} />
      </span>
    );
  return <Table caption="Who has worked" columns={columns} rows={workers} keyOf={({ id }) => id} below={reasonOf} />;
}

function durationOf({ startedAt, finishedAt }: Worker): number | null {
  return startedAt === null || finishedAt === null ? null : Date.parse(finishedAt) - Date.parse(startedAt);
}
