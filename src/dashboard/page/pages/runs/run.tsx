import type { ComponentChildren } from 'preact';
import { countOf, formatBytes, formatDuration, formatNumber } from '../../../../system/base/format.ts';
import { printable } from '../../../../system/base/text.ts';
import { Answered, Facts, FigureItem, FigureList, Notice, Page, Section } from '../../components/page.tsx';
import { RunOutcome, State, toneOfState, wordsOfState } from '../../components/state.tsx';
import { JobLink, RunLink, ScriptLink, Sentences } from '../../components/text.tsx';
import { Elapsed, Time } from '../../components/time.tsx';
import { useQuery } from '../../data.ts';
import { IncidentButtons } from '../../manage/incident.tsx';
import { RunNow, RunWithArguments } from '../../manage/run-now.tsx';
import { may } from '../../manage/session.ts';
import { StopRun } from '../../manage/stop-run.tsx';
import { hrefOf, place } from '../../router.ts';
import { JobVerbs } from '../queue/verbs.tsx';
import { ComparedChoice, Comparison } from './comparison.tsx';
import { Output, readNumber, type ShownRun } from './run-output.tsx';
import { cpuOf } from './runs.tsx';

/** One run: how it ended, why, what it wrote, and what was unlike others. */
export function RunPage({ item }: { readonly item: string }) {
  const asked = useQuery('/api/runs/{id}', { params: { path: { id: Number(item) } } });
  const tab = asked.data === null ? undefined : `${asked.data.script} #${item} ${wordsOfState(asked.data.outcome)}`;
  return (
    <Page title={`Run ${item}`} tab={tab} aside={asked.data === null ? null : <Aside run={asked.data} />}>
      <Answered asked={asked}>{(run) => <Told run={run} />}</Answered>
    </Page>
  );
}

/** How it stands, and what can be done about it. */
function Aside({ run }: { readonly run: ShownRun }) {
  return (
    <>
      <RunOutcome run={run} />
      {run.outcome === 'running' && <StopRun run={run} />}
      {run.outcome !== 'running' && run.queueJob !== null && may('run') && <RetryJob job={run.queueJob} />}
      {run.outcome !== 'running' && run.scriptVerbs.includes('run') && <Again run={run} />}
    </>
  );
}

function Again({ run: { script } }: { readonly run: ShownRun }) {
  return (
    <>
      <RunNow script={script} words="Run again" />
      <RunWithArguments script={script} />
    </>
  );
}

/** Lets the job of a run run once more, by the verb that it takes now. */
function RetryJob({ job }: { readonly job: NonNullable<ShownRun['queueJob']> }) {
  const verb = retryVerbs.find((each) => job.verbs.includes(each));
  return verb === undefined ? null : <JobVerbs jobs={[{ ...job, verbs: [verb] }]} what="its job" />;
}

const retryVerbs = ['kick', 'requeue'] as const;

/** The open incidents of its script, and what can be done about them. */
function OpenIncidents({ incidents }: Pick<ShownRun, 'incidents'>) {
  return (
    <>
      {incidents.map((incident) => (
        <p key={incident.id} class="bar">
          <a href={hrefOf('/incidents')}>Incident {incident.id}</a>
          <IncidentButtons incident={{ ...incident, isAcknowledged: incident.acknowledgedAt !== null }} />
        </p>
      ))}
    </>
  );
}

function Told({ run }: { readonly run: ShownRun }) {
  return (
    <>
      <Ways run={run} />
      <Ending run={run} />
      <Measured run={run} />
      <Section title="What happened when">
        <Timeline run={run} />
      </Section>
      {run.error !== null && (
        <Section title="Error">
          <ErrorStack error={run.error} />
        </Section>
      )}
      <RunOutput key={run.id} run={run} />
      <Details run={run} />
    </>
  );
}

/** Output of a run, or its difference to the output of the run that the address names. */
function RunOutput({ run }: { readonly run: ShownRun }) {
  const other = readNumber(place.value.query.with);
  if (other !== null) return <Comparison run={run} other={other} />;
  return (
    <Section title="Output" aside={run.outcome !== 'running' && <ComparedChoice run={run} />}>
      <Output run={run.id} isRunning={run.outcome === 'running'} isEndFirst={run.reason !== null} />
    </Section>
  );
}

/** To what it belongs, and to the runs beside it. */
function Ways({ run }: { readonly run: ShownRun }) {
  return (
    <p class="bar">
      <ScriptLink name={run.script} />
      {run.job !== null && <JobLink id={run.job} />}
      {run.previous !== null && <RunLink id={run.previous}>← Run before it</RunLink>}
      {run.next !== null && <RunLink id={run.next}>Run after it →</RunLink>}
      <a href={hrefOf('/runs', null, { script: run.script })}>All its runs</a>
    </p>
  );
}

/** Whether a summary leaves something out: it is the error, which the reason of a failed run tells, too, or a line. */
function hasMore({ error, outcome }: ShownRun, reason: string): boolean {
  return error === null ? reason.includes('\n') : outcome !== 'failed';
}

/** In words: how it ended, and what is to be known of it. */
function Ending({ run }: { readonly run: ShownRun }) {
  const tone = toneOfState(run.outcome);
  const said = run.summary ?? run.reason;
  return (
    <>
      {said !== null && tone === 'bad' && (
        <Notice tone="bad" title={said}>
          {run.reason !== null && hasMore(run, run.reason) && (
            <p>
              <Sentences text={run.reason} />
            </p>
          )}
          {run.changeText !== null && <p>{run.changeText}</p>}
          {may('run') && <OpenIncidents incidents={run.incidents} />}
        </Notice>
      )}
      {said !== null && tone !== 'bad' && (
        <p class="lead">
          <Sentences text={said} />
        </p>
      )}
      {run.unusual.length > 0 && (
        <Notice tone="warning" title="It was unlike the runs before it">
          <ul>
            {run.unusual.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </Notice>
      )}
      {run.warning !== null && <Notice tone="warning" title={run.warning} />}
    </>
  );
}

/** Its figures, beside what is usual of the script. */
function Measured({ run }: { readonly run: ShownRun }) {
  const { usual } = run;
  const beside = (figure: number | null | undefined, format: (value: number) => string): ComponentChildren =>
    figure === null || figure === undefined ? null : <span class="quiet small"> usually {format(figure)}</span>;
  const cpu = cpuOf(run);
  return (
    <FigureList>
      <FigureItem label="Duration">
        {formatDuration(run.durationMs)}
        {beside(usual.durationMs, formatDuration)}
      </FigureItem>
      <FigureItem label="Memory at its peak">
        {formatBytes(run.maxRssBytes)}
        {beside(usual.maxRssBytes, formatBytes)}
      </FigureItem>
      <FigureItem label="CPU time">
        {formatDuration(cpu)}
        {cpu !== null && run.durationMs ? (
          <span class="quiet small"> {Math.round((cpu / run.durationMs) * 100)} % of one processor</span>
        ) : null}
      </FigureItem>
      <FigureItem label="Output">
        {formatBytes(run.outputBytes)}
        {beside(usual.outputBytes, formatBytes)}
      </FigureItem>
      {Object.entries(run.counts).map(([name, count]) => (
        <FigureItem key={name} label={name}>
          {formatNumber(count)}
          {beside(usual.counts[name], formatNumber)}
        </FigureItem>
      ))}
    </FigureList>
  );
}

/** Facts for a closer look. */
function Details({ run }: { readonly run: ShownRun }) {
  const exact = run.measuredBy === 'self' ? 'exactly, by its own process' : 'by samples of its processes';
  const cpu = `${formatDuration(run.userCpuMs)} user, ${formatDuration(run.systemCpuMs)} system`;
  return (
    <Section title="Details">
      <Facts
        facts={[
          ['Exit code', run.exitCode],
          ['Signal', run.signal],
          ['Machine', run.host],
          ['Process', run.pid],
          ['Measured', run.measuredBy && exact],
          ['CPU', run.userCpuMs === null ? null : cpu],
          ['Content', run.contentHash && <code>{run.contentHash.slice(0, 12)}</code>],
          ['Output left out', run.outputDroppedBytes ? countOf(run.outputDroppedBytes, 'byte') : null],
        ]}
      />
    </Section>
  );
}

interface ThrownError {
  readonly name: string | null;
  readonly message: string | null;
  readonly stack: string | null;
}

/** A thrown error: its message, its frames in the script, and, folded away, all other frames. */
function ErrorStack({ error }: { readonly error: ThrownError }) {
  const { title, own, foreign } = readStack(error);
  return (
    <div class="error-stack">
      <pre class="error-title">{title}</pre>
      {own.length > 0 && <pre>{own.join('\n')}</pre>}
      {foreign.length > 0 && (
        <details open={own.length === 0}>
          <summary>{countOf(foreign.length, 'more line')} of Node and of packages</summary>
          <pre>{foreign.join('\n')}</pre>
        </details>
      )}
    </div>
  );
}

interface Stack {
  readonly title: string;
  /** Frames of the script and what it imports from its own folder. */
  readonly own: readonly string[];
  readonly foreign: readonly string[];
}

const isFrame = /^\s+at /;

/** Matches frames of Node, of packages, and of the runner's own code in a script. */
const isForeignFrame =
  /[/\\]node_modules[/\\]|[/\\](?:probe|handler-host)-[\w.-]+\.cjs|\(?node:|\bat (?:async )?Promise\.|<anonymous>\)?$/;

function readStack({ name, message, stack }: ThrownError): Stack {
  const said = [name, message].filter(Boolean).join(': ');
  const lines = printable(stack ?? '')
    .trimEnd()
    .split('\n');
  const begin = lines.findIndex((line) => isFrame.test(line));
  const frames = begin === -1 ? [] : lines.slice(begin);
  const head = (begin === -1 ? lines : lines.slice(0, begin)).join('\n');
  const isForeign = (line: string): boolean => isFrame.test(line) && isForeignFrame.test(line);
  return {
    title: head.includes(printable(message ?? '')) && head !== '' ? head : printable(said),
    own: frames.filter((line) => !isForeign(line)),
    foreign: frames.filter(isForeign),
  };
}

/** When it was due, started and ended, and the other tries. */
function Timeline({ run }: { readonly run: ShownRun }) {
  const late = between(run.scheduledFor, run.startedAt);
  const isEarlier = ({ attempt }: ShownRun['tries'][number]) => attempt < run.attempt;
  return (
    <ol class="timeline">
      {run.scheduledFor !== null && (
        <li>
          <span>Was due</span> <Time at={run.scheduledFor} as="whole" />
        </li>
      )}
      {run.tries.filter(isEarlier).map((each) => (
        <Try key={each.id} run={each} />
      ))}
      <li>
        <span>Started</span> <Time at={run.startedAt} as="whole" />
        {run.startedBy !== null && ` by ${run.startedBy}`}
        {late !== null && late > 0 && <span class="quiet"> {formatDuration(late)} after it was due</span>}
      </li>
      {run.finishedAt === null ? (
        <li>
          <span>Runs</span> for <Elapsed since={run.startedAt} />
          {run.stoppedBy !== null && `; ${run.stoppedBy} has asked for its end`}
        </li>
      ) : (
        <li>
          <span>Ended</span> <Time at={run.finishedAt} as="whole" />
          <span class="quiet"> after {formatDuration(run.durationMs)}</span> <RunOutcome run={run} />
        </li>
      )}
      {run.tries
        .filter((each) => !isEarlier(each))
        .map((each) => (
          <Try key={each.id} run={each} />
        ))}
    </ol>
  );
}

function Try({ run: { id, attempt, startedAt, outcome } }: { readonly run: ShownRun['tries'][number] }) {
  return (
    <li>
      <span>Try {attempt}</span> <Time at={startedAt} as="whole" /> <State state={outcome} /> <RunLink id={id} />
    </li>
  );
}

/** Null: one of them is not known. */
function between(from: string | null, until: string | null): number | null {
  const apart = Date.parse(until ?? '') - Date.parse(from ?? '');
  return Number.isNaN(apart) ? null : apart;
}
