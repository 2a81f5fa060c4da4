import type { ComponentChildren } from 'preact';
import { formatDuration } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { serverNow } from '../../clock.ts';
import { Answered } from '../../components/notice.tsx';
import { Page, Section } from '../../components/page.tsx';
import { State } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name, Words } from '../../components/text.tsx';
import { Countdown, Time } from '../../components/time.tsx';
import { type Asked, useAnswer } from '../../data.ts';
import { pausedWords } from '../../manage/pause.tsx';
import { mayManage } from '../../manage/session.ts';
import { hrefOf } from '../../router.ts';
import { Happenings } from '../activity/activity.tsx';
import { ExactText, textOfMember } from './exact.tsx';
import { describeTries, ShownJobState } from './job-words.tsx';
import { JobVerbs } from './verbs.tsx';

type Story = components['schemas']['JobStory'];

/** One job of the queue: how it stands and why, what it was given, what it has given, and its life so far. */
export function OneJob({ item }: { readonly item: string }) {
  const id = Number(item);
  // As text, which is exact: numbers of JavaScript have no more than 15 digits.
  const asked = useAnswer('/api/jobs/{id}', { params: { path: { id } }, parseAs: 'text' } as never);
  const text = asked as unknown as Asked<string>;
  return text.data === null ? (
    <Page title={`Job ${item}`}>
      <Answered asked={text}>{() => null}</Answered>
    </Page>
  ) : (
    <Whole text={text.data} problem={text.problem} />
  );
}

function Whole({ text, problem }: { readonly text: string; readonly problem: string | null }) {
  const job: Story = JSON.parse(text);
  const result = textOfMember(text, 'result');
  const leave = (verb: string) => {
    if (verb === 'delete') location.hash = hrefOf('/queue');
  };
  const aside = (
    <>
      <ShownJobState job={job} nowMs={serverNow.value} />
      {mayManage.value && <JobVerbs jobs={[job]} nowMs={serverNow.value} onDone={leave} />}
    </>
  );
  return (
    <Page title={`Job ${job.id} ${job.name}`} aside={aside}>
      <Answered asked={{ data: job, problem }}>
        {() => (
          <>
            {job.reason !== null && (
              <p class="lead">
                <Words text={job.reason} />
              </p>
            )}
            <Facts job={job} />
            <Section title="Data">
              <ExactText text={textOfMember(text, 'data') ?? 'null'} label="Data as JSON" />
            </Section>
            {result !== null && result !== 'null' && (
              <Section title="Result">
                <ExactText text={result} label="Result as JSON" />
              </Section>
            )}
            <Family job={job} />
            <RunsOfJob runs={job.runs} />
            <Section title="Its life">
              <Life id={job.id} />
            </Section>
          </>
        )}
      </Answered>
    </Page>
  );
}

function Facts({ job }: { readonly job: Story }) {
  const isWaiting = job.state === 'queued' || job.state === 'retrying';
  const facts: readonly (readonly [label: string, value: ComponentChildren])[] = [
    ['added', <Time at={job.createdAt} />],
    [isWaiting ? 'due' : 'was due', <Time at={job.runAt} />],
    ['paused', job.pause && <HeldBy pause={job.pause} />],
    ['scheduled for', job.scheduledFor && <Time at={job.scheduledFor} />],
    ['last try began', job.startedAt && <Time at={job.startedAt} />],
    ['ended', job.finishedAt && <Time at={job.finishedAt} />],
    ['claim expires', job.leasedUntil && <Countdown until={job.leasedUntil} />],
    ['tries', describeTries(job)],
    ['priority', job.priority],
    ['repeats', job.repeat && <RepeatRule job={job} />],
    ['unique key', job.uniqueKey && <Name text={job.uniqueKey} />],
    ['group', job.group && <Name text={job.group} />],
    ['lease', job.leaseMs && formatDuration(job.leaseMs)],
    ['so far', describeCounters(job.counters)],
  ];
  return (
    <dl class="facts card">
      {facts.map(
        ([label, value]) =>
          value !== null && (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

function HeldBy({ pause: { name, kind, until } }: { readonly pause: NonNullable<Story['pause']> }) {
  return (
    <>
      {kind === 'pause' ? '' : 'fails once it is due, as '}
      {pausedWords(name)}{' '}
      {until === null ? (
        'until it is resumed'
      ) : (
        <>
          until <Time at={until} />
        </>
      )}
    </>
  );
}

/** The rule, and the next times that it gives. */
function RepeatRule({ job }: { readonly job: Story }) {
  const query = { name: job.name, iterations: 20 };
  const { data } = useAnswer('/api/schedule', { params: { query } });
  const next = data?.jobs.filter(({ id }) => id === job.id).slice(0, 5) ?? [];
  return (
    <>
      <Name text={job.repeat ?? ''} /> · missed times: {job.missed}
      {next.length > 0 && (
        <ol class="next-times">
          {next.map(({ at, isExpected }) => (
            <li key={at}>
              {isExpected && '~ '}
              <Time at={at} />
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

const counterWords: Readonly<Record<keyof Story['counters'], readonly [one: string, many: string]>> = {
  reserves: ['claim', 'claims'],
  timeouts: ['expired lease', 'expired leases'],
  releases: ['release', 'releases'],
  buries: ['burial', 'burials'],
  kicks: ['kick', 'kicks'],
  crashes: ['crash', 'crashes'],
};

function describeCounters(counters: Story['counters']): string | null {
  const keys = Object.keys(counterWords) as (keyof Story['counters'])[];
  const told = keys.filter((key) => counters[key] > 0);
  return told.map((key) => `${counters[key]} ${counterWords[key][counters[key] === 1 ? 0 : 1]}`).join(' · ') || null;
}

/** Its parent, and its children. */
function Family({ job: { parent, children } }: { readonly job: Story }) {
  if (parent === null && children.length === 0) return null;
  return (
    <Section title={parent === null ? 'Children' : 'Parent'}>
      {parent !== null && <a href={hrefOf('/jobs', parent)}>Job {parent}</a>}
      <ul class="children">
        {children.map(({ id, name, state }) => (
          <li key={id}>
            <State state={state} /> <a href={hrefOf('/jobs', id)}>Job {id}</a> <Name text={name} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

const runColumns: readonly TableColumn<Story['runs'][number]>[] = [
  { title: 'Run', cell: ({ id }) => <a href={hrefOf('/runs', id)}>Run {id}</a>, onPhone: 'title' },
  { title: 'Try', cell: ({ attempt }) => attempt, isNumber: true },
  { title: 'Outcome', cell: ({ outcome }) => <State state={outcome} /> },
  { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} /> },
  { title: 'Duration', cell: ({ durationMs }) => formatDuration(durationMs), isNumber: true },
];

function RunsOfJob({ runs }: { readonly runs: Story['runs'] }) {
  if (runs.length === 0) return null;
  const reasonOf = ({ reason }: Story['runs'][number]) => reason && <span class="small quiet">{reason}</span>;
  return (
    <Section title="Runs">
      <Table
        caption="Its runs, the newest first"
        columns={runColumns}
        rows={runs}
        keyOf={({ id }) => id}
        below={reasonOf}
      />
    </Section>
  );
}

/** Oldest first, as one tells a story. */
function Life({ id }: { readonly id: number }) {
  const asked = useAnswer('/api/activity', { params: { query: { job: id, limit: 500 } } });
  return <Answered asked={asked}>{({ items }) => <Happenings items={items.toReversed()} isOfOne />}</Answered>;
}
