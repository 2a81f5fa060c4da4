import { countOf } from '../../../../report/text/format.ts';
import { Choice, More } from '../../components/fields.tsx';
import { Empty, Loading, Notice } from '../../components/notice.tsx';
import { Page } from '../../components/page.tsx';
import { hrefOf, place, setQuery } from '../../router.ts';
import { usePages } from '../paged.ts';
import { Happenings } from './happenings.tsx';

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
  const { pages, problem, more } = usePages('/api/activity', query);
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
      {items.length > 0 && <More shown={countOf(items.length, 'entry', 'entries')} onMore={more} />}
    </Page>
  );
}
