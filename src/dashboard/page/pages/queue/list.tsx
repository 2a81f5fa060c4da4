import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { countOf, formatCount } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Listed, readRange } from '../../components/fields.tsx';
import { Empty } from '../../components/page.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { JobLink, Name, Words } from '../../components/text.tsx';
import { serverNow } from '../../components/time.tsx';
import { isStatic, useList } from '../../data.ts';
import { useHeldRows } from '../../held-rows.ts';
import { may } from '../../manage/session.ts';
import { JobAbout } from './about.tsx';
import { AllThatMatch } from './all-that-match.tsx';
import { describeTries, type JobFilters, JobTime, type ShownJob, ShownJobState } from './job-words.tsx';
import { JobVerbs } from './verbs.tsx';

type Job = components['schemas']['ListedJob'];

/** At a glance; more when asked for. */
const PAGE = 50;

/** The newest jobs, or those that the filters choose, with verbs for the rows that are chosen. */
export function JobListing({ filters }: { readonly filters: JobFilters }) {
  // Other filters have other rows: none of them is chosen or held.
  return <HeldListing key={JSON.stringify(filters)} filters={filters} />;
}

function HeldListing({ filters }: { readonly filters: JobFilters }) {
  const query = { ...filters, ...readRange(filters), limit: PAGE, ...(!isStatic && { count: 'true' }) };
  const list = useList('/api/jobs', query);
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const { rows, news, load } = useHeldRows(list.items, chosen.size > 0);
  const selection = useSelection(
    rows.map(({ id }) => id),
    chosen,
    setChosen,
  );
  const total = list.pages[0]?.total ?? null;
  const searched = list.pages.reduce((sum, page) => sum + (page.searched ?? 0), 0);
  const shown = (count: number): string => {
    if (!filters.search)
      return total === null || total <= count ? countOf(count, 'job') : `${count} of ${countOf(total, 'job')}`;
    const further = list.more === null ? '' : ', and there are further ones to search';
    return `${countOf(count, 'job')} found among ${formatCount(searched)}${further}`;
  };
  return (
    <Listed list={list} none={<NoJobs filters={filters} />} shown={shown}>
      {() => (
        <>
          {may('run') && (
            <ChosenBar jobs={rows} selection={selection}>
              {selection.ids.size === 0 && <AllThatMatch filters={filters} total={total} />}
              {news > 0 && (
                <button type="button" onClick={load}>
                  {formatCount(news)} new
                </button>
              )}
            </ChosenBar>
          )}
          <JobTable jobs={rows} selection={may('run') ? selection : null} search={filters.search} />
        </>
      )}
    </Listed>
  );
}

function NoJobs({ filters }: { readonly filters: JobFilters }) {
  if (Object.values(filters).some(Boolean)) return <Empty title="No job is like that." />;
  return (
    <Empty title="The queue is empty.">
      <p>
        A job is added by <code>npx folder-runner add mail/welcome '{'{"to":"a@example.org"}'}'</code>, by{' '}
        <code>openQueue()</code>, or by plain SQL. Its handler is a script in <code>jobs/queue/</code>.
      </p>
    </Empty>
  );
}

interface ChosenBarProps {
  readonly jobs: readonly ShownJob[];
  readonly selection: JobSelection;
  /** Further buttons. */
  readonly children: ComponentChildren;
}

/** Follows the list down the screen, so that what can be done to the chosen rows is always at hand. */
function ChosenBar({ jobs, selection, children }: ChosenBarProps) {
  const chosen = jobs.filter(({ id }) => selection.ids.has(id));
  const isAll = chosen.length === jobs.length;
  return (
    <fieldset class="bar chosen" aria-label="Chosen jobs" data-empty={chosen.length === 0}>
      <label class="check">
        <input
          type="checkbox"
          checked={isAll}
          ref={(box) => {
            if (box) box.indeterminate = chosen.length > 0 && !isAll;
          }}
          onChange={selection.toggleAll}
        />
        {chosen.length === 0 ? `Choose all ${jobs.length} shown` : `${countOf(chosen.length, 'job')} chosen`}
      </label>
      {chosen.length > 0 && <JobVerbs jobs={chosen} onDone={selection.clear} />}
      {children}
    </fieldset>
  );
}

interface JobTableProps {
  readonly jobs: readonly Job[];
  /** Null: rows cannot be chosen. */
  readonly selection: JobSelection | null;
  /** A text that was searched for. */
  readonly search: string | undefined;
}

function JobTable({ jobs, selection, search }: JobTableProps) {
  const nowMs = serverNow.value;
  const columns: readonly TableColumn<Job>[] = [
    ...(selection === null ? [] : [chooseColumn(selection)]),
    { title: 'Job', cell: ({ id }) => <JobLink id={id}>{id}</JobLink>, isNumber: true },
    {
      ...{ title: 'Name', isName: true, onPhone: 'title' },
      cell: ({ name, data }) => (
        <>
          <Name text={name} /> <JobAbout data={data} search={search} />
        </>
      ),
    },
    { title: 'State', cell: (job) => <ShownJobState job={job} nowMs={nowMs} /> },
    { title: 'When', cell: (job) => <JobTime job={job} nowMs={nowMs} /> },
    { title: 'Tries', cell: describeTries, isNumber: true },
  ];
  const whyOf = ({ reason }: ShownJob) =>
    reason && (
      <span class="quiet small">
        <Words text={reason} />
      </span>
    );
  return <Table caption="Jobs" columns={columns} rows={jobs} keyOf={({ id }) => id} below={whyOf} />;
}

function chooseColumn(selection: JobSelection): TableColumn<Job> {
  return {
    title: 'Choose',
    isTitleHidden: true,
    cell: ({ id }) => (
      <input
        type="checkbox"
        aria-label={`Choose job ${id}`}
        checked={selection.ids.has(id)}
        // A change does not say whether shift is held.
        onClick={({ shiftKey }) => selection.toggle(id, shiftKey)}
      />
    ),
  };
}

/** Rows that are chosen, by their numbers. */
interface JobSelection {
  readonly ids: ReadonlySet<number>;
  /** One row; with shift, all between it and the one chosen before. */
  toggle(id: number, isRange: boolean): void;
  /** All rows that are shown, or none of them. */
  toggleAll(): void;
  clear(): void;
}

/** A row that is no longer shown is no longer chosen: nobody acts on rows they do not see. */
function useSelection(
  shown: readonly number[],
  chosen: ReadonlySet<number>,
  setChosen: (ids: ReadonlySet<number>) => void,
): JobSelection {
  const [anchor, setAnchor] = useState<number | null>(null);
  const ids = new Set(shown.filter((id) => chosen.has(id)));
  const toggle = (id: number, isRange: boolean): void => {
    const isOn = !ids.has(id);
    const next = new Set(ids);
    const from = anchor === null ? -1 : shown.indexOf(anchor);
    const to = shown.indexOf(id);
    const range = isRange && from >= 0 ? shown.slice(Math.min(from, to), Math.max(from, to) + 1) : [id];
    for (const each of range) {
      if (isOn) next.add(each);
      else next.delete(each);
    }
    setChosen(next);
    setAnchor(id);
  };
  return {
    ids,
    toggle,
    toggleAll: () => setChosen(ids.size === shown.length ? new Set() : new Set(shown)),
    clear: () => setChosen(new Set()),
  };
}
