import { useState } from 'preact/hooks';
import { countOf, formatCount } from '../../../../system/base/format.ts';
import { Listed } from '../../components/fields.tsx';
import { Empty } from '../../components/page.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name, Words } from '../../components/text.tsx';
import { serverNow } from '../../components/time.tsx';
import { useList } from '../../data.ts';
import { may } from '../../manage/session.ts';
import { hrefOf } from '../../router.ts';
import { describeTries, JobTime, type ShownJob, ShownJobState } from './job-words.tsx';
import { JobVerbs } from './verbs.tsx';

/** Which jobs are listed, as the address has it; undefined: whichever. */
export interface JobFilters {
  readonly name: string | undefined;
  /** A key of `countedStates`. */
  readonly state: string | undefined;
  /** Added since then: `12h`, `2026-11-01`. */
  readonly since: string | undefined;
  /** In data, result or reason. */
  readonly search: string | undefined;
}

/** At a glance; more when asked for. */
const PAGE = 50;

/** The newest jobs, or those that the filters choose, with verbs for the rows that are chosen. */
export function JobListing({ filters }: { readonly filters: JobFilters }) {
  const list = useList('/api/jobs', { ...filters, limit: PAGE });
  const selection = useSelection((list.items ?? []).map(({ id }) => id));
  const searched = list.pages.reduce((sum, page) => sum + (page.searched ?? 0), 0);
  const shown = (count: number): string => {
    if (!filters.search) return countOf(count, 'job');
    const further = list.more === null ? '' : ', and there are further ones to search';
    return `${countOf(count, 'job')} found among ${formatCount(searched)}${further}`;
  };
  return (
    <Listed list={list} none={<NoJobs filters={filters} />} shown={shown}>
      {(jobs) => (
        <>
          {may('run') && <ChosenBar jobs={jobs} selection={selection} />}
          <JobTable jobs={jobs} selection={may('run') ? selection : null} />
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
        A job is added by <code>runner add mail/welcome '{'{"to":"a@example.org"}'}'</code>, by <code>openQueue()</code>
        , or by plain SQL; its handler is a script in <code>jobs/queue/</code>.
      </p>
    </Empty>
  );
}

interface ChosenBarProps {
  readonly jobs: readonly ShownJob[];
  readonly selection: JobSelection;
}

/** Follows the list down the screen, so that what can be done to the chosen rows is always at hand. */
function ChosenBar({ jobs, selection }: ChosenBarProps) {
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
    </fieldset>
  );
}

interface JobTableProps {
  readonly jobs: readonly ShownJob[];
  /** Null: rows cannot be chosen. */
  readonly selection: JobSelection | null;
}

function JobTable({ jobs, selection }: JobTableProps) {
  const nowMs = serverNow.value;
  const columns: readonly TableColumn<ShownJob>[] = [
    ...(selection === null ? [] : [chooseColumn(selection)]),
    { title: 'Job', cell: ({ id }) => <a href={hrefOf('/jobs', id)}>{id}</a>, isNumber: true },
    { title: 'Name', cell: ({ name }) => <Name text={name} />, isName: true, onPhone: 'title' },
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

function chooseColumn(selection: JobSelection): TableColumn<ShownJob> {
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
function useSelection(shown: readonly number[]): JobSelection {
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
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
