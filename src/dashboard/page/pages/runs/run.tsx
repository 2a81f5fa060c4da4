import type { ComponentChildren } from 'preact';
import { countOf, formatBytes, formatCount, formatDuration } from '../../../../report/text/format.ts';
import { Answered, Notice } from '../../components/notice.tsx';
import { FigureItem, FigureList, Page, Section } from '../../components/page.tsx';
import { State, toneOfState } from '../../components/state.tsx';
import { useAnswer } from '../../data.ts';
import { hrefOf } from '../../router.ts';
import { ErrorStack } from './error-stack.tsx';
import { RunOutput } from './run-output.tsx';
import { cpuOf, type OneRun } from './run-table.tsx';
import { Timeline } from './timeline.tsx';
import './runs.css';

/** One run: how it ended, why, what it wrote, and what was unlike others. */
export function RunPage({ item }: { readonly item: string }) {
  const asked = useAnswer('/api/runs/{id}', { params: { path: { id: Number(item) } } });
  const state = asked.data === null ? null : <State state={asked.data.outcome} />;
  return (
    <Page title={`Run ${item}`} aside={state}>
      <Answered asked={asked}>{(run) => <Told run={run} />}</Answered>
    </Page>
  );
}

function Told({ run }: { readonly run: OneRun }) {
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

/** To what it belongs, and to the runs beside it. */
function Ways({ run }: { readonly run: OneRun }) {
  return (
    <p class="bar">
      <a href={hrefOf('/scripts', run.script)}>
        <bdi>{run.script}</bdi>
      </a>
      {run.job !== null && <a href={hrefOf('/jobs', run.job)}>Job {run.job}</a>}
      {run.previous !== null && <a href={hrefOf('/runs', run.previous)}>← Run before it</a>}
      {run.next !== null && <a href={hrefOf('/runs', run.next)}>Run after it →</a>}
      <a href={hrefOf('/runs', null, { script: run.script })}>All its runs</a>
    </p>
  );
}

/** In words: how it ended, and what is to be known of it. */
function Ending({ run }: { readonly run: OneRun }) {
  const tone = toneOfState(run.outcome);
  const said = run.summary ?? run.reason;
  return (
    <>
      {said !== null && tone === 'bad' && (
        <Notice tone="bad" title={said}>
          {run.reason !== null && !run.reason.includes(said) && <p>{run.reason}</p>}
          {run.changeText !== null && <p>{run.changeText}</p>}
        </Notice>
      )}
      {said !== null && tone !== 'bad' && <p>{said}</p>}
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
function Measured({ run }: { readonly run: OneRun }) {
  const { data: script } = useAnswer('/api/scripts/{name}', { params: { path: { name: run.script } } });
  const usual = script?.usual;
  const beside = (figure: number | null | undefined, format: (value: number) => string): ComponentChildren =>
    figure === null || figure === undefined ? null : <span class="quiet small"> usually {format(figure)}</span>;
  const cpu = cpuOf(run);
  return (
    <FigureList>
      <FigureItem label="Duration">
        {formatDuration(run.durationMs)}
        {beside(usual?.durationMs, formatDuration)}
      </FigureItem>
      <FigureItem label="Memory at its peak">
        {formatBytes(run.maxRssBytes)}
        {beside(usual?.maxRssBytes, formatBytes)}
      </FigureItem>
      <FigureItem label="CPU time">
        {formatDuration(cpu)}
        {cpu !== null && run.durationMs ? (
          <span class="quiet small"> {Math.round((cpu / run.durationMs) * 100)} % of one processor</span>
        ) : null}
      </FigureItem>
      <FigureItem label="Output">
        {formatBytes(run.outputBytes)}
        {beside(usual?.outputBytes, formatBytes)}
      </FigureItem>
      {Object.entries(run.counts).map(([name, count]) => (
        <FigureItem key={name} label={name}>
          {formatNumber(count)}
          {beside(usual?.counts[name], formatNumber)}
        </FigureItem>
      ))}
    </FigureList>
  );
}

function formatNumber(value: number): string {
  return Number.isSafeInteger(value) && value >= 0 ? formatCount(value) : String(Math.round(value * 1000) / 1000);
}

/** What one needs when one looks closer. */
function Details({ run }: { readonly run: OneRun }) {
  const exact = run.measuredBy === 'self' ? 'exactly, by its own process' : 'by samples of its processes';
  const facts: (readonly [string, ComponentChildren])[] = [
    ['Exit code', run.exitCode],
    ['Signal', run.signal],
    ['Process', run.pid],
    ['Measured', run.measuredBy && exact],
    [
      'CPU',
      run.userCpuMs === null
        ? null
        : `${formatDuration(run.userCpuMs)} user, ${formatDuration(run.systemCpuMs)} system`,
    ],
    ['Content', run.contentHash && <code>{run.contentHash.slice(0, 12)}</code>],
    ['Output left out', run.outputDroppedBytes ? countOf(run.outputDroppedBytes, 'byte') : null],
  ];
  return (
    <Section title="Details">
      <dl class="facts">
        {facts
          .filter(([, value]) => value !== null && value !== undefined)
          .map(([label, value]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </Section>
  );
}
