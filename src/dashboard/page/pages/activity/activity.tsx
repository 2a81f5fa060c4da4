import { countOf } from '../../../../system/base/format.ts';
import { withInstants } from '../../../../system/base/text.ts';
import type { components } from '../../../client/paths.ts';
import { serverNow } from '../../clock.ts';
import { Choice, More } from '../../components/fields.tsx';
import { Empty, Loading, Notice } from '../../components/notice.tsx';
import { Page } from '../../components/page.tsx';
import { Name } from '../../components/text.tsx';
import { formatShort, Time } from '../../components/time.tsx';
import { hrefOf, place, setQuery } from '../../router.ts';
import { usePages } from '../paged.ts';

const spans: readonly (readonly [value: string, words: string])[] = [
  ['', 'at any time'],
  ['1h', 'in the last hour'],
  ['24h', 'in the last 24 hours'],
  ['7d', 'in the last 7 days'],
];

/** What happened to all jobs and workers, the newest first, and who did it. */
export function ActivityPage() {
  const { since = '', job, worker } = place.value.query;
  const query = { since: since || undefined, job, worker, limit: 100 };
  const { pages, problem, more, isCut } = usePages('/api/activity', query);
  const items = pages?.flatMap((page) => page.items) ?? [];
  const known = spans.some(([value]) => value === since) ? spans : [...spans, [since, `since ${since}`] as const];
  const only = job ? `job ${job}` : worker ? `worker ${worker}` : null;
  return (
    <Page title="Activity">
      <div class="bar">
        <Choice label="When" value={since} options={known} onChange={(value) => setQuery({ since: value })} />
        {only && (
          <span>
            only {only} · <a href={hrefOf('/activity')}>all</a>
          </span>
        )}
      </div>
      {problem !== null && <Notice tone="bad" title={problem} />}
      {pages === null && problem === null && <Loading />}
      {pages !== null && items.length === 0 && <Empty title="Nothing of that kind is in the log." />}
      <Happenings items={items} />
      {items.length > 0 && <More shown={countOf(items.length, 'entry', 'entries')} onMore={more} isCut={isCut} />}
    </Page>
  );
}

type Happening = components['schemas']['Activity'];

interface HappeningsProps {
  readonly items: readonly Happening[];
  /** All are of one job, which need not be named. */
  readonly isOfOne?: boolean;
}

/** What happened, one line each: when, what, of what, why, and by whom. */
export function Happenings({ items, isOfOne = false }: HappeningsProps) {
  return (
    <ol class="happenings">
      {items.map((each, index) => (
        // What happened stays as it is, and has no number of its own.
        <li key={`${each.at} ${index}`} class={toneOf(each.event)}>
          <Time at={each.at} as={isOfOne ? 'whole' : 'both'} />
          <span>
            <strong>{each.text}</strong> {!isOfOne && <Subject {...each} />}{' '}
            {each.run !== null && <RunLink run={each.run} />}
            {each.by !== null && (
              <span class="actor">
                {' '}
                by <Name text={each.by} />
              </span>
            )}
            {each.detail !== null && <span class="small quiet detail">{detailOf(each)}</span>}
            {each.warning !== null && <span class="small warning-line">warning: {each.warning}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** A run may have ended by what a script said. */
function detailOf({ detail, run }: Happening): string | null {
  return run !== null || detail === null ? detail : withInstants(detail, (at) => formatShort(at, serverNow.value));
}

function Subject({ job, name, worker, isOfScript }: Happening) {
  if (isOfScript && name !== null) {
    return (
      <a href={hrefOf('/scripts', name)}>
        <Name text={name} />
      </a>
    );
  }
  return (
    <>
      {job !== null && (
        <>
          <a href={hrefOf('/jobs', job)}>job {job}</a> {name !== null && <Name text={name} />}
        </>
      )}
      {job === null && worker !== null && (
        <a href={hrefOf('/activity', null, { worker: String(worker) })}>worker {worker}</a>
      )}
    </>
  );
}

function RunLink({ run }: { readonly run: number }) {
  return <a href={hrefOf('/runs', run)}>run {run}</a>;
}

/** What one looks for first has a colour; each has its words. */
function toneOf(event: string): string {
  if (/failed|crashed|expired|lost|quarantined|undelivered|orphaned/.test(event)) return 'bad';
  if (/retrying|skipped|buried|cancelled|deleted|released|deferred|paused/.test(event)) return 'warning';
  return /finished|resumed/.test(event) ? 'good' : '';
}
