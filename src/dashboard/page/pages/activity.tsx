import { countOf } from '../../../system/base/format.ts';
import { withInstants } from '../../../system/base/text.ts';
import type { components } from '../../client/paths.ts';
import { Choice, Listed, readRange, SearchField, SinceChoice } from '../components/fields.tsx';
import { Empty, Page } from '../components/page.tsx';
import { JobLink, Name, RunLink, ScriptLink, Words } from '../components/text.tsx';
import { formatShort, serverNow, Time } from '../components/time.tsx';
import { isStatic, useList } from '../data.ts';
import { hrefOf, isFiltered, place, setQuery } from '../router.ts';

/** Events of all jobs and workers, the newest first, with who caused them. */
export function ActivityPage() {
  const { job, worker, event, subject, by, search, ...times } = place.value.query;
  const filter = { job, worker, event, subject, by, search };
  const list = useList('/api/activity', { ...filter, ...readRange(times), limit: 100 });
  const only = job ? `job ${job}` : worker ? `worker ${worker}` : null;
  return (
    <Page title="Activity">
      <div class="bar">
        {!isStatic && (
          <>
            <SearchField label="Text" value={search ?? ''} onChange={(value) => setQuery({ search: value || null })} />
            <Choice label="What" value={event ?? ''} options={kinds} onChange={(value) => setQuery({ event: value })} />
            <Choice label="By" value={by ?? ''} options={people} onChange={(value) => setQuery({ by: value })} />
          </>
        )}
        <SinceChoice label="When" />
        {only && (
          <span>
            only {only} · <a href={hrefOf('/activity')}>all</a>
          </span>
        )}
      </div>
      <Listed
        list={list}
        none={<Empty title={isFiltered() ? 'Nothing of that kind is in the log.' : 'Nothing has happened yet.'} />}
        shown={(count) => countOf(count, 'entry', 'entries')}
      >
        {(items) => <Happenings items={items} />}
      </Listed>
    </Page>
  );
}

const kinds = [
  ['', 'everything'],
  ['job-failed,worker-crashed,run-orphaned,job-lease-expired,alert-undelivered,lock-lost', 'failures'],
  ['run-started,run-requested', 'runs begun'],
  ['paused,resumed,muted,unmuted', 'pauses and mutes'],
  ['incident-acknowledged,incident-closed', 'incidents'],
  ['job-kicked,job-updated,job-cancelled,job-buried,job-deleted,job-requeued', 'changed jobs'],
  ['worker-started,worker-finished,worker-skipped,worker-crashed', 'workers'],
] as const;

const people = [
  ['', 'anybody or nobody'],
  ['*', 'somebody'],
  ['token *', 'a token'],
  ['user *', 'a user of the host'],
] as const;

type Happening = components['schemas']['Activity'];

type HappeningsProps =
  | { readonly items: readonly Happening[]; readonly isOfOne?: false }
  /** All are of one job, which need not be named. */
  | { readonly items: components['schemas']['JobStory']['activity']; readonly isOfOne: true };

/** Events, one line each: when, what, of what, why, and by whom. */
export function Happenings({ items, isOfOne = false }: HappeningsProps) {
  return (
    <ol class="happenings">
      {items.map((each, index) => (
        // An event never changes, and has no number of its own.
        <li key={`${each.at} ${index}`} class={toneOf(each.event)}>
          <Time at={each.at} as={isOfOne ? 'whole' : 'both'} />
          <span>
            <strong>{each.text}</strong> {'job' in each && <Subject {...each} />}{' '}
            {each.run !== null && <RunLink id={each.run}>run {each.run}</RunLink>}
            {each.by !== null && (
              <span class="actor">
                {' '}
                by <Name text={each.by} />
              </span>
            )}
            {each.detail !== null && <span class="small quiet detail">{detailOf(each)}</span>}
            {each.warning !== null && (
              <span class="small warning-line">
                warning: <Words text={each.warning} />
              </span>
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** A run may have ended by what a script said. */
function detailOf({ detail, run }: Pick<Happening, 'detail' | 'run'>): string | null {
  return run !== null || detail === null ? detail : withInstants(detail, (at) => formatShort(at, serverNow.value));
}

function Subject({ job, name, worker, isOfScript }: Happening) {
  if (isOfScript && name !== null) return <ScriptLink name={name} />;
  if (job === null) {
    return worker && <a href={hrefOf('/activity', null, { worker: String(worker) })}>worker {worker}</a>;
  }
  return (
    <>
      <JobLink id={job}>job {job}</JobLink> {name !== null && <Name text={name} />}
    </>
  );
}

/** Gives a colour to events that people look for first; each has its words besides. */
function toneOf(event: string): string {
  if (/failed|crashed|expired|lost|quarantined|undelivered|orphaned/.test(event)) return 'bad';
  if (/retrying|skipped|buried|cancelled|deleted|released|deferred|paused/.test(event)) return 'warning';
  return /finished|resumed/.test(event) ? 'good' : '';
}
