import { useId, useState } from 'preact/hooks';
import { countOf } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Choice, SinceChoice } from '../../components/fields.tsx';
import { Answered, Notice, Page, Section } from '../../components/page.tsx';
import { State } from '../../components/state.tsx';
import { Name } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { isStatic, useQuery } from '../../data.ts';
import { AddJob } from '../../manage/add-job.tsx';
import { PauseButton, type PauseInForce, pausedWords } from '../../manage/pause.tsx';
import { may } from '../../manage/session.ts';
import { filteredHref, hrefOf, place, setQuery } from '../../router.ts';
import { siteStatus } from '../../site-status.ts';
import { countedStates, NamesTable, PaceLine, StateTiles, stateKeys } from './counts.tsx';
import type { JobFilters } from './job-words.tsx';
import { JobListing } from './list.tsx';

/** The queue: how much waits and for how long, what has failed, what has no handler, and the jobs themselves. */
export function QueuePage() {
  const filters = readFilters();
  const queue = useQuery('/api/queue', {});
  const status = siteStatus.value;
  const pauses = status.data?.pauses ?? [];
  const own = pauses.find(({ name }) => name === 'queue' || name === '*') ?? null;
  const aside = (
    <>
      <AddButton names={queue.data?.handlers ?? []} />
      <PauseButton name="queue" pause={own} />
    </>
  );
  return (
    <Page title="Queue" aside={aside}>
      <Answered asked={status}>{({ queue }) => <QueueStanding queue={queue} pauses={pauses} />}</Answered>
      <Answered asked={queue}>
        {({ counts, totals, pace }) => (
          <>
            <PaceLine pace={pace} />
            <StateTiles counts={counts} since={pace.all.oldestDue} chosen={filters.state ?? ''} />
            {counts.length > 0 && (
              <Section title="By name">
                <NamesTable counts={counts} totals={totals} paces={pace.names} pauses={pauses} />
              </Section>
            )}
          </>
        )}
      </Answered>
      <Section title="Jobs">
        <Filters filters={filters} names={queue.data?.counts.map(({ name }) => name) ?? []} />
        <JobListing filters={filters} />
      </Section>
    </Page>
  );
}

function AddButton({ names }: { readonly names: readonly string[] }) {
  const [isAdding, setIsAdding] = useState(false);
  if (!may('run')) return null;
  return (
    <>
      <button type="button" class="primary" onClick={() => setIsAdding(true)}>
        Add a job …
      </button>
      {isAdding && <AddJob names={names} onClose={() => setIsAdding(false)} />}
    </>
  );
}

type QueueStatus = components['schemas']['QueueStatus'];

interface StandingProps {
  readonly queue: QueueStatus;
  readonly pauses: readonly PauseInForce[];
}

/** Workers, missing handlers and pauses, with their cures. */
function QueueStanding({ queue, pauses }: StandingProps) {
  const ofQueue = pauses.filter(({ name }) => name === '*' || name === 'queue' || name.startsWith('queue/'));
  return (
    <>
      {queue.withoutHandler.length > 0 && (
        <Notice tone="warning" title="Jobs wait for handlers that are not there">
          <ul>
            {queue.withoutHandler.map((each) => (
              <li key={each.name}>
                <WithoutHandler {...each} />
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {ofQueue.map((pause) => (
        <Notice key={pause.name} tone="paused" title={describeHeld(pause)}>
          {pause.until !== null && (
            <p>
              until <Time at={pause.until} />
            </p>
          )}
        </Notice>
      ))}
      <p class="workers-line">
        <Workers {...queue} />
      </p>
    </>
  );
}

function WithoutHandler({ name, jobs, nearest }: QueueStatus['withoutHandler'][number]) {
  return (
    <>
      <a href={filteredHref('/queue', { name: `${name}*` })}>
        <Name text={name} />
      </a>
      : {countOf(jobs, 'job waits', 'jobs wait')}.{' '}
      {nearest === null ? (
        <>
          Add its handler,{' '}
          <code>
            jobs/queue/
            <Name text={name} />
            .ts
          </code>{' '}
          for example, or delete the jobs.
        </>
      ) : (
        <>
          Did you mean <Name text={nearest} />? Rename the handler, or add the jobs anew and delete these.
        </>
      )}
    </>
  );
}

function describeHeld({ name, kind }: PauseInForce): string {
  const what = pausedWords(name);
  return kind === 'pause' ? `Paused: ${what}` : `Jobs fail as soon as they are due: ${what}`;
}

function Workers({ workers, idleWorkers, waiting, ready }: QueueStatus) {
  const others =
    waiting.length > 0 && `${countOf(waiting.length, 'other process waits', 'other processes wait')} for jobs`;
  if (workers === null) return <State state="unknown" word="The log cannot be read." />;
  if (workers > 0) {
    const idle = idleWorkers ? `, ${idleWorkers === workers ? 'all idle' : `${idleWorkers} of them idle`}` : '';
    return (
      <>
        <State state="running" word={countOf(workers, 'worker')} /> <a href={hrefOf('/workers')}>at work{idle}</a>
        {others && `; ${others}`}
      </>
    );
  }
  return (
    <>
      <State state="waiting" tone="waiting" word="no worker now" /> {others && `${others}. `}
      {!others && ready !== null && ready > 0 && 'The next pass of any tier, or runner work, takes what is due.'}
    </>
  );
}

function readFilters(): JobFilters {
  const { name, state, since, until, search } = place.value.query;
  return { name, state, since, until, search };
}

const states: readonly (readonly [value: string, words: string])[] = [
  ['', 'any'],
  ...stateKeys.map((state) => [state, countedStates[state]] as const),
];

interface FiltersProps {
  readonly filters: JobFilters;
  /** To choose from. */
  readonly names: readonly string[];
}

/** Each choice changes the address, so that it can be kept and sent. */
function Filters({ filters, names }: FiltersProps) {
  const { name = '', state = '', search = '' } = filters;
  const list = useId();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setQuery({ name: String(form.get('name')).trim(), search: String(form.get('search')).trim() });
  };
  const isFiltered = Object.values(filters).some(Boolean);
  const stateChoice = (
    <Choice label="State" value={state} options={states} onChange={(value) => setQuery({ state: value })} />
  );
  // A report was asked for states and names alone.
  if (isStatic) {
    return (
      <div class="bar">
        {stateChoice}
        {isFiltered && <a href={filteredHref('/queue')}>Show all</a>}
      </div>
    );
  }
  return (
    <search>
      <form class="bar" aria-label="Jobs" onSubmit={submit}>
        <TextFilter label="Name" name="name" value={name} placeholder="mail/*" list={list} />
        <datalist id={list}>
          {names.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        {stateChoice}
        <SinceChoice label="Added" />
        <TextFilter label="Search in data" name="search" value={search} placeholder="an address, a number …" />
        <button type="submit">Show</button>
        {isFiltered && <a href={filteredHref('/queue')}>Show all</a>}
      </form>
    </search>
  );
}

interface TextFilterProps {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  readonly placeholder: string;
  readonly list?: string;
}

/** Takes effect once it is typed: each of its answers may cost a look at 100,000 jobs. */
function TextFilter({ label, name, value, placeholder, list }: TextFilterProps) {
  const id = useId();
  return (
    <span class="choice">
      <label for={id}>{label}</label>
      <input
        // Another address shows its own value.
        key={value}
        type="text"
        id={id}
        name={name}
        defaultValue={value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        {...(list && { list })}
        onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value.trim() })}
      />
    </span>
  );
}
