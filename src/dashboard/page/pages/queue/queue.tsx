import { useState } from 'preact/hooks';
import { Answered } from '../../components/notice.tsx';
import { Page, Section } from '../../components/page.tsx';
import { useAnswer } from '../../data.ts';
import { AddJob } from '../../manage/add-job.tsx';
import { PauseButton } from '../../manage/pause.tsx';
import { mayManage } from '../../manage/session.ts';
import { NamesTable, StateTiles } from './counts.tsx';
import { Filters, readFilters } from './filters.tsx';
import { JobListing } from './list.tsx';
import { QueueStanding } from './standing.tsx';

/** The queue: how much waits and for how long, what has failed, what has no handler, and the jobs themselves. */
export function QueuePage() {
  const filters = readFilters();
  const counts = useAnswer('/api/jobs/counts', {});
  const totals = useAnswer('/api/jobs/totals', {});
  const status = useAnswer('/api/status', {});
  const pauses = status.data?.pauses ?? [];
  const own = pauses.find(({ name }) => name === 'queue' || name === '*') ?? null;
  const aside = (
    <>
      <AddButton />
      <PauseButton name="queue" pause={own} />
    </>
  );
  return (
    <Page title="Queue" aside={aside}>
      <Answered asked={status}>{({ queue }) => <QueueStanding queue={queue} pauses={pauses} />}</Answered>
      <Answered asked={counts}>
        {({ items }) => (
          <>
            <StateTiles counts={items} chosen={filters.state ?? ''} />
            {items.length > 0 && (
              <Section title="By name">
                <NamesTable counts={items} totals={totals.data?.items ?? []} pauses={pauses} />
              </Section>
            )}
          </>
        )}
      </Answered>
      <Section title="Jobs">
        <Filters filters={filters} names={counts.data?.items.map(({ name }) => name) ?? []} />
        <JobListing filters={filters} />
      </Section>
    </Page>
  );
}

function AddButton() {
  const [isAdding, setIsAdding] = useState(false);
  const tiers = useAnswer('/api/tiers', {});
  if (!mayManage.value) return null;
  // A handler is `queue/mail/welcome`, its jobs are `mail/welcome`.
  const names = tiers.data?.handlers.map(({ script }) => script.replace(/^queue\//, '')) ?? [];
  return (
    <>
      <button type="button" class="primary" onClick={() => setIsAdding(true)}>
        Add a job …
      </button>
      {isAdding && <AddJob names={names} onClose={() => setIsAdding(false)} />}
    </>
  );
}
