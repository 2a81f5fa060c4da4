import {
  countOf,
  describePace,
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
} from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Answered, Empty, FigureItem, FigureList, Notice, Page, Section } from '../../components/page.tsx';
import { FAILED, Icon, State } from '../../components/state.tsx';
import { Name, RiseLines, RunLink, ScriptLink, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { tell } from '../../components/toast.tsx';
import { useQuery } from '../../data.ts';
import { PauseButton } from '../../manage/pause.tsx';
import { isWall } from '../../manage/session.ts';
import { hrefOf } from '../../router.ts';
import { siteStatus } from '../../site-status.ts';
import { NextCall, type OverviewAnswer, Paused, Running, type StatusAnswer, Tiers } from './tiers.tsx';
import { Troubles } from './troubles.tsx';

/** Is everything well, what failed, since when, why, what now. */
export function OverviewPage() {
  const overview = useQuery('/api/overview', {});
  return (
    <Page title="Overview">
      <Answered asked={siteStatus.value}>
        {(stands) => <Answered asked={overview}>{(told) => <Told overview={told} status={stands} />}</Answered>}
      </Answered>
    </Page>
  );
}

interface ToldProps {
  readonly overview: OverviewAnswer;
  readonly status: StatusAnswer;
}

function Told({ overview, status }: ToldProps) {
  const { verdict, troubles } = status;
  if (verdict.isUntouched) return <FirstSteps {...overview} />;
  return (
    <>
      <Headline {...status} />
      <LogNotes {...status} />
      {troubles.length > 0 && (
        <Section title="What is wrong">
          <Troubles troubles={troubles} />
        </Section>
      )}
      <Risen {...status} />
      {!status.isLogUnread && <Details overview={overview} status={status} />}
    </>
  );
}

/** Most scripts that are named. */
const MOST_RISEN = 10;

/** Scripts that are slower than usual, or need more memory. */
function Risen({ risen }: StatusAnswer) {
  if (risen.length === 0) return null;
  const further = risen.length - MOST_RISEN;
  return (
    <Section title="Slower than usual">
      <ul class="card rises">
        {risen.slice(0, MOST_RISEN).map(({ script, ...rises }) => (
          <li key={script}>
            <ScriptLink name={script} />
            <RiseLines {...rises} />
          </li>
        ))}
      </ul>
      {further > 0 && (
        <p class="more">
          <a href={hrefOf('/scripts')}>{countOf(further, 'further script')}</a>
        </p>
      )}
    </Section>
  );
}

/** Sections that need the log. */
function Details({ overview, status }: ToldProps) {
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
          {!isWall.value && <RecentFailures />}
        </div>
        <div>
          <Section title="Tiers" aside={!isWall.value && <a href={hrefOf('/next')}>What runs next</a>}>
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
  const asked = useQuery('/api/failures', {});
  const more = <a href={hrefOf('/runs', null, { outcome: FAILED })}>All that failed</a>;
  return (
    <Section title="Recent failures" aside={asked.data?.items.length ? more : null}>
      <Answered asked={asked}>{({ items }) => <Failures failures={items} />}</Answered>
    </Section>
  );
}

/** The answer in a sentence: whether all is well, since when it is not, and when something happens next. */
function Headline({ verdict: { level, title, since, lastPass, nextTier }, tiers, running }: StatusAnswer) {
  const next = tiers.find(({ tier }) => tier === nextTier);
  return (
    <div class={`headline ${level}`} role="status">
      <Icon name={level === 'bad' ? 'incidents' : level} />
      <div>
        <p class="headline-title">{title}</p>
        <ul class="parts">
          {since !== null && (
            <li>
              since <Time at={since} />
            </li>
          )}
          {lastPass !== null && (
            <li>
              last pass <Time at={lastPass} as="relative" />
            </li>
          )}
          {running.length > 0 && <li>{running.length} running now</li>}
          {next !== undefined && (
            <li>
              <Name text={next.tier} /> is next: <NextCall {...next} isBrief />
            </li>
          )}
        </ul>
      </div>
    </div>
  );
}

/** Says why the log, or a part of it, is missing. */
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
            {pause.by !== null && <span class="quiet"> by {pause.by}</span>}
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

type Failure = components['schemas']['Failure'];

/** More are listed by their page. */
const MOST_FAILURES = 6;

/** The last runs of the week that did not succeed, one line for each cause, also of what has recovered since. */
function Failures({ failures }: { readonly failures: readonly Failure[] }) {
  if (failures.length === 0) return <p class="card quiet">No run has failed in the last 7 days.</p>;
  return (
    <ul class="failures card">
      {failures
        .slice(0, MOST_FAILURES)
        .map(({ id, script, outcome, startedAt, durationMs, summary, times, firstAt }) => (
          <li key={id}>
            <p class="states">
              <State state={outcome} />
              <RunLink id={id}>
                <Name text={script} />
              </RunLink>
              {times > 1 && (
                <a href={hrefOf('/runs', null, { script, outcome, since: '7d' })}>{formatCount(times)} times</a>
              )}
              <span class="quiet">
                <Time at={startedAt} />
                {times > 1 ? (
                  <>
                    , first <Time at={firstAt} as="short" />
                  </>
                ) : (
                  durationMs !== null && `, after ${formatDuration(durationMs)}`
                )}
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

const shownStates = ['failed', 'running', 'ready', 'delayed', 'paused'] as const;

/** How the queue stands, in one line. */
function QueueLine({ queue }: Pick<StatusAnswer, 'queue'>) {
  const states = shownStates.filter((state) => (queue[state] ?? 0) > 0);
  const { workers, idleWorkers, withoutHandler, pace } = queue;
  if (queue.ready === null) return <p class="card quiet">Not known without the log.</p>;
  const idle = idleWorkers ? ` (${idleWorkers} idle)` : '';
  return (
    <div class="card">
      <p class="states">
        {states.length === 0 && <span class="quiet">No job is waiting.</span>}
        {states.map((state) => (
          <a key={state} href={hrefOf('/queue', null, { state })}>
            <State state={state} word={`${formatCount(queue[state] ?? 0)} ${state}`} />
          </a>
        ))}
        <span class="quiet">{workers ? countOf(workers, 'worker') + idle : 'no worker now'}</span>
      </p>
      {pace !== null && (
        <p class="small">
          <State state="warning" word={describePace(pace)} />
        </p>
      )}
      {withoutHandler.slice(0, 3).map(({ name, jobs, nearest }) => (
        <p key={name} class="small">
          <State state="warning" word={`${countOf(jobs, 'job')} without a handler`} /> <Name text={name} />
          {nearest !== null && <Words text={`; did you mean ${nearest}?`} />}
        </p>
      ))}
    </div>
  );
}

/** First steps for a root where nothing ever ran. */
function FirstSteps({ scripts, tiers }: OverviewAnswer) {
  const { length } = scripts;
  const tier = scripts.find((script) => script.tier !== 'queue' && script.presence !== 'disabled')?.tier ?? 'hourly';
  return (
    <Empty
      title={length === 0 ? 'There is no script yet' : `Nothing has run yet; ${countOf(length, 'script')} in jobs/`}
    >
      <ol class="steps">
        {length === 0 && (
          <li>
            <p>Put a script into jobs/hourly, or let an example be written:</p>
            <Command text="npx folder-runner init" />
          </li>
        )}
        <li>
          <p>Run it once to see that it works; it will appear here:</p>
          <Command text={`npx folder-runner ${tier}`} />
        </li>
        <li>
          <p>Let cron run it from now on:</p>
          <Command text="npx folder-runner cron --install" />
        </li>
        <li>
          <p>If something does not work as it should, let the host be checked:</p>
          <Command text="npx folder-runner doctor" />
        </li>
      </ol>
      {tiers.length > 0 && (
        <p class="quiet">
          Tiers here:{' '}
          {tiers.map((each, index) => (
            <>
              {index > 0 && ', '}
              <Name text={each.tier} />
            </>
          ))}
        </p>
      )}
    </Empty>
  );
}

/** A command for a shell, with a button that copies it. */
function Command({ text }: { readonly text: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell(`Copied: ${text}`);
    } catch {
      // Browsers refuse it on pages without TLS.
      tell('This browser does not let the page copy; select the command instead.', { isBad: true });
    }
  };
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" aria-label={`Copy ${text}`} onClick={copy}>
        <Icon name="copy" />
      </button>
    </span>
  );
}
