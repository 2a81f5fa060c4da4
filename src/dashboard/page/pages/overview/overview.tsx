import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { countOf, formatBytes, formatCount, formatDuration, formatRate } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { setServerTime } from '../../clock.ts';
import { Icon } from '../../components/icon.tsx';
import { Answered, Notice } from '../../components/notice.tsx';
import { FigureItem, FigureList, Page, Section } from '../../components/page.tsx';
import { FAILED, State } from '../../components/state.tsx';
import { Name, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { useAnswer } from '../../data.ts';
import { PauseButton } from '../../manage/pause.tsx';
import { hrefOf } from '../../router.ts';
import { FirstSteps } from './first-steps.tsx';
import {
  findTroubles,
  type Health,
  isUntouched,
  judgeSite,
  type OverviewAnswer,
  type StatusAnswer,
  type Verdict,
} from './judge.ts';
import { Running } from './running.tsx';
import { NextCall, Paused, Tiers } from './tiers.tsx';
import { Troubles } from './troubles.tsx';

/** Is everything well, what failed, since when, why, what now. */
export function OverviewPage() {
  const overview = useAnswer('/api/overview', {});
  const status = useAnswer('/api/status', {});
  const health = useAnswer('/api/health', {});
  useEffect(() => setServerTime(status.data?.at ?? null), [status.data?.at]);
  return (
    <Page title="Overview">
      <Answered asked={status}>
        {(stands) => (
          <Answered asked={overview}>
            {(told) => <Told overview={told} status={stands} health={health.data} />}
          </Answered>
        )}
      </Answered>
    </Page>
  );
}

interface ToldProps {
  readonly overview: OverviewAnswer;
  readonly status: StatusAnswer;
  readonly health: Health | null;
}

function Told({ overview, status, health }: ToldProps) {
  if (isUntouched(overview, status)) return <FirstSteps {...overview} />;
  const troubles = findTroubles(overview, status, health);
  return (
    <>
      <Headline verdict={judgeSite(overview, status, troubles)} overview={overview} status={status} />
      <LogNotes {...status} />
      {troubles.length > 0 && (
        <Section title="What is wrong">
          <Troubles troubles={troubles} />
        </Section>
      )}
      {!status.isLogUnread && <Details overview={overview} status={status} />}
    </>
  );
}

/** What only the log knows. */
function Details({ overview, status }: Omit<ToldProps, 'health'>) {
  return (
    <>
      <div class="halves">
        <div>
          <Section title="Running now">
            {status.running.length === 0 ? (
              <p class="card quiet">Nothing is running.</p>
            ) : (
              <Running runs={status.running} />
            )}
          </Section>
          <RecentFailures />
        </div>
        <div>
          <Section title="Tiers">
            <Tiers overview={overview} status={status} />
          </Section>
          <Section title="Queue">
            <QueueLine queue={status.queue} />
          </Section>
          <Pauses {...status} />
        </div>
      </div>
      <Totals {...overview} />
    </>
  );
}

function RecentFailures() {
  const asked = useAnswer('/api/runs', { params: { query: { outcome: FAILED, limit: 5 } } });
  const more = <a href={hrefOf('/runs', null, { outcome: FAILED })}>All that failed</a>;
  return (
    <Section title="Recent failures" aside={asked.data?.items.length ? more : null}>
      <Answered asked={asked}>{({ items }) => <Failures runs={items} />}</Answered>
    </Section>
  );
}

interface HeadlineProps {
  readonly verdict: Verdict;
  readonly overview: OverviewAnswer;
  readonly status: StatusAnswer;
}

const iconOf = { good: 'good', bad: 'incidents', warning: 'warning', paused: 'paused' } as const;

/** The answer in a sentence: whether all is well, since when it is not, and when something happens next. */
function Headline({ verdict: { tone, title, since }, overview, status }: HeadlineProps) {
  const last = overview.tiers
    .flatMap(({ lastPass }) => lastPass?.startedAt ?? [])
    .toSorted()
    .at(-1);
  const isDue = ({ pause, holder, isOverdue }: StatusAnswer['tiers'][number]) => !pause && !holder && !isOverdue;
  const due = status.tiers.filter((tier) => tier.nextCall !== null && isDue(tier));
  const next = due.toSorted((one, other) => (one.nextCall ?? '').localeCompare(other.nextCall ?? ''))[0];
  const parts: ComponentChildren[] = [];
  if (since !== null)
    parts.push(
      <>
        since <Time at={since} />
      </>,
    );
  if (last !== undefined)
    parts.push(
      <>
        last pass <Time at={last} as="relative" />
      </>,
    );
  if (status.running.length > 0) parts.push(<>{status.running.length} running now</>);
  if (next !== undefined)
    parts.push(
      <>
        <Name text={next.tier} /> is next: <NextCall {...next} isBrief />
      </>,
    );
  return (
    <div class={`headline ${tone}`} role="status">
      <Icon name={iconOf[tone as keyof typeof iconOf] ?? 'unknown'} />
      <div>
        <p class="headline-title">{title}</p>
        <ul class="parts">
          {parts.map((part, index) => (
            <li key={index}>{part}</li>
          ))}
        </ul>
      </div>
    </div>
  );
}

/** Where what was recorded is not all here. */
function LogNotes({ isLogUnread, logProblem, spooledRuns, quarantinedLogs }: StatusAnswer) {
  return (
    <>
      {isLogUnread && (
        <Notice tone="bad" title="What ran, and what came of it, is not known">
          <p>
            <Words text={logProblem ?? 'The activity log cannot be read.'} />
          </p>
          <p>
            <Words text="Scripts run all the same. `npx folder-runner doctor` tells what is wrong and how to cure it." />
          </p>
        </Notice>
      )}
      {spooledRuns > 0 && (
        <Notice tone="warning" title={`${countOf(spooledRuns, 'run')} recorded without the log`}>
          <p>The next pass takes {spooledRuns === 1 ? 'it' : 'them'} into the log.</p>
        </Notice>
      )}
      {quarantinedLogs.length > 0 && (
        <Notice tone="warning" title={`${countOf(quarantinedLogs.length, 'broken log')} put aside`}>
          <p>
            In .runner/: <Name text={quarantinedLogs.join(', ')} />. Delete it once you need nothing of it.
          </p>
        </Notice>
      )}
    </>
  );
}

function Pauses({ pauses }: StatusAnswer) {
  if (pauses.length === 0) return null;
  return (
    <Section title="Paused">
      <ul class="card pauses">
        {pauses.map((pause) => (
          <li key={`${pause.kind} ${pause.name}`}>
            <Paused pause={pause} of={pause.name} />
            <strong>{pause.name === '*' ? 'everything' : <Name text={pause.name} />}</strong>
            {pause.kind === 'fail-fast' && <span class="quiet"> fails when it is due</span>}
            <PauseButton name={pause.name} pause={pause} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Totals({ totals, scripts, since }: OverviewAnswer) {
  return (
    <Section
      title="The last 7 days"
      aside={
        <span class="quiet small">
          since <Time at={since} as="short" />
        </span>
      }
    >
      <div class="card">
        <FigureList>
          <FigureItem label="Scripts">{scripts.length}</FigureItem>
          <FigureItem label="Runs">{totals.runs}</FigureItem>
          <FigureItem label="Failed">{totals.failed}</FigureItem>
          <FigureItem label="Success">{formatRate(totals.successRate)}</FigureItem>
          <FigureItem label="Time running">{formatDuration(totals.durationMs)}</FigureItem>
          <FigureItem label="CPU">{formatDuration(totals.cpuMs)}</FigureItem>
          <FigureItem label="Most memory">{formatBytes(totals.maxRssBytes)}</FigureItem>
        </FigureList>
      </div>
    </Section>
  );
}

type ToldRun = components['schemas']['ToldRun'];

/** The last runs that did not succeed, also of what has recovered since. */
function Failures({ runs }: { readonly runs: readonly ToldRun[] }) {
  if (runs.length === 0) return <p class="card quiet">No run has failed.</p>;
  return (
    <ul class="failures card">
      {runs.map(({ id, script, outcome, startedAt, durationMs, summary }) => (
        <li key={id}>
          <p class="failure-head">
            <State state={outcome} />
            <a href={hrefOf('/runs', id)}>
              <Name text={script} />
            </a>
            <span class="quiet">
              <Time at={startedAt} />
              {durationMs !== null && `, after ${formatDuration(durationMs)}`}
            </span>
          </p>
          {summary !== null && (
            <p class="small failure-text">
              <Name text={summary} />
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

const shown = [
  ['failed', 'failed'],
  ['running', 'running'],
  ['ready', 'ready'],
  ['delayed', 'delayed'],
  ['paused', 'paused'],
] as const;

/** How the queue stands, in one line. */
function QueueLine({ queue }: Pick<StatusAnswer, 'queue'>) {
  const states = shown.filter(([state]) => (queue[state] ?? 0) > 0);
  const { workers, idleWorkers, withoutHandler } = queue;
  if (queue.ready === null) return <p class="card quiet">Not known without the log.</p>;
  const idle = idleWorkers ? ` (${idleWorkers} idle)` : '';
  return (
    <div class="card">
      <p class="states">
        {states.length === 0 && <span class="quiet">No job is waiting.</span>}
        {states.map(([state, word]) => (
          <a key={state} href={hrefOf('/queue', null, { state })}>
            <State state={state} word={`${formatCount(queue[state] ?? 0)} ${word}`} />
          </a>
        ))}
        <span class="quiet">{workers ? countOf(workers, 'worker') + idle : 'no worker now'}</span>
      </p>
      {withoutHandler.slice(0, 3).map(({ name, jobs, nearest }) => (
        <p key={name} class="small">
          <State state="warning" word={`${countOf(jobs, 'job')} without a handler`} /> <Name text={name} />
          {nearest !== null && (
            <>
              ; did you mean <Name text={nearest} />?
            </>
          )}
        </p>
      ))}
    </div>
  );
}
