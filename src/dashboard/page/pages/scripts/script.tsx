import {
  countOf,
  formatBytes,
  formatDuration,
  formatNumber,
  formatPeriod,
  formatRate,
  UNKNOWN,
} from '../../../../system/base/format.ts';
import { describeWait } from '../../../../system/base/wait-words.ts';
import type { components } from '../../../client/paths.ts';
import { Answered, FigureItem, FigureList, Notice, Page, Section } from '../../components/page.tsx';
import { RunOutcome, State, type Tone, toneOfState } from '../../components/state.tsx';
import { RiseLines, RunLink, Words } from '../../components/text.tsx';
import { Elapsed, serverNow, Time, Until } from '../../components/time.tsx';
import { isStatic, useQuery } from '../../data.ts';
import { IncidentButtons } from '../../manage/incident.tsx';
import { PauseButton } from '../../manage/pause.tsx';
import { RunNow, RunWithArguments } from '../../manage/run-now.tsx';
import { StopRun } from '../../manage/stop-run.tsx';
import { place } from '../../router.ts';
import { siteStatus } from '../../site-status.ts';
import { Output } from '../runs/run-output.tsx';
import { OutcomeChoice, Runs } from '../runs/runs.tsx';
import { ChainSection } from './chain.tsx';
import { HistorySection } from './history.tsx';
import { Sparkline } from './scripts.tsx';

type ScriptAnswer = components['schemas']['Script'];

/** One script: is it well, why did it (not) run, what does it do now, how did it do before. */
export function ScriptPage({ item }: { readonly item: string }) {
  // A report is made without it.
  const query = isStatic ? {} : ({ why: 'true' } as const);
  const asked = useQuery('/api/scripts/{name}', { params: { path: { name: item }, query } });
  return (
    <Page title={item} aside={asked.data === null ? null : <Aside script={asked.data} />}>
      <Answered asked={asked}>{(script) => <Told script={script} />}</Answered>
    </Page>
  );
}

function Aside({ script }: { readonly script: ScriptAnswer }) {
  const { script: name, verbs, pause } = script;
  return (
    <>
      <StateOf script={script} />
      {verbs.includes('run') && <RunNow script={name} />}
      {verbs.includes('run') && <RunWithArguments script={name} />}
      {verbs.some((verb) => verb !== 'run') && <PauseButton name={name} pause={pause} />}
    </>
  );
}

/** Running and paused take precedence over the last outcome. */
function StateOf({ script: { running, pause, presence, lastRun } }: { readonly script: ScriptAnswer }) {
  if (running.length > 0) return <State state="running" />;
  if (presence === 'gone' || presence === 'disabled') return <State state={presence} />;
  if (pause !== null) return <State state="paused" />;
  return lastRun === null ? <State state="unknown" word="never ran" /> : <RunOutcome run={lastRun} />;
}

function Told({ script }: { readonly script: ScriptAnswer }) {
  const { outcome } = place.value.query;
  const query = { script: script.script, limit: 25, ...(outcome ? { outcome } : {}) };
  return (
    <>
      <Head script={script} />
      {script.incidents.map((incident) => (
        <Notice key={incident.id} tone={toneOfState(incident.grade)} title={incident.error ?? incident.code}>
          <p>
            {incident.hint !== null && <Words text={incident.hint} />} Since <Time at={incident.openedAt} />
            {incident.acknowledgedAt !== null && ', acknowledged'}.{' '}
            {incident.lastRun !== null && <RunLink id={incident.lastRun} />}
          </p>
          <p class="bar">
            <IncidentButtons incident={{ ...incident, isAcknowledged: incident.acknowledgedAt !== null }} />
          </p>
        </Notice>
      ))}
      {(script.slower ?? script.heavier) !== null && (
        <Notice tone="warning" title={titleOfRise(script)}>
          <RiseLines {...script} />
        </Notice>
      )}
      {script.running.map(({ id, startedAt }) => (
        <Section key={id} title="Running now" aside={<Elapsed since={startedAt} />}>
          <p>
            <RunLink id={id} />, started <Time at={startedAt} />{' '}
            <StopRun run={{ id, script: script.script, startedAt }} />
          </p>
          <Output run={id} isRunning />
        </Section>
      ))}
      {script.why !== null && <WhySection why={script.why} />}
      {script.chain !== null && <ChainSection chain={script.chain} own={script.script} />}
      <Section title="Duration and memory">
        <HistorySection script={script.script} />
      </Section>
      <Section title="Runs" aside={<OutcomeChoice />}>
        <Runs query={query} isOfOne />
      </Section>
      <Usual script={script} />
      <Versions script={script} />
    </>
  );
}

function titleOfRise({ slower }: ScriptAnswer): string {
  return slower === null ? 'More memory than usual' : 'Slower than usual';
}

function Head({ script }: { readonly script: ScriptAnswer }) {
  const { lastRun, file, recentRuns } = script;
  return (
    <>
      {file?.options.description !== undefined && <p class="lead">{file.options.description}</p>}
      <Schedule script={script} />
      <FigureList>
        <FigureItem label="Last run">
          {lastRun === null ? (
            'never'
          ) : (
            <RunLink id={lastRun.id}>
              <Time at={lastRun.startedAt} as="relative" />
            </RunLink>
          )}
        </FigureItem>
        <FigureItem label="Success, last 7 days">
          {formatRate(script.successRate)} <span class="quiet small">of {countOf(script.runs, 'run')}</span>
        </FigureItem>
        <FigureItem label="Duration">
          {formatDuration(script.p50DurationMs)}{' '}
          {script.maxDurationMs !== null && (
            <span class="quiet small">
              p95 {formatDuration(script.p95DurationMs)}, at most {formatDuration(script.maxDurationMs)}
            </span>
          )}
        </FigureItem>
        <FigureItem label="Memory">{formatBytes(script.maxRssBytes)}</FigureItem>
        <FigureItem label="CPU a run">{formatDuration(script.cpuMs)}</FigureItem>
        {recentRuns.some(({ durationMs }) => durationMs !== null) && (
          <FigureItem label="Last 20 runs">
            <Sparkline runs={recentRuns} />
          </FigureItem>
        )}
      </FigureList>
      {script.lastError !== null && script.incidents.length === 0 && <Notice tone="bad" title={script.lastError} />}
    </>
  );
}

/** Its tier or its own times, when it runs next, and what keeps it from running. */
function Schedule({ script }: { readonly script: ScriptAnswer }) {
  const { data: status } = siteStatus.value;
  // The queue is no tier, and neither is a folder that is gone.
  const tier = status?.tiers.find((each) => each.tier === script.tier);
  const period = tier?.periodMs ? formatPeriod(tier.periodMs) : null;
  const own = status?.scheduled.find((each) => each.script === script.script);
  const isOverdue = own === undefined && tier?.isOverdue === true;
  const next = own === undefined ? tier?.nextCall : own.nextPass;
  return (
    <p class="quiet lead">
      {script.tier}
      {own === undefined ? period !== null && `, ${period}` : `, ${describeTimes(own)}`}
      {/* The status knows the script's own times as well. */}
      {status !== null && next && (
        <>
          {isOverdue ? ' · overdue since ' : ' · next '}
          <Time at={next} />
        </>
      )}
      {script.pause !== null && (
        <>
          {' · paused since '}
          <Time at={script.pause.since} /> {script.pause.by !== null && `by ${script.pause.by} `}
          <Until at={script.pause.until} forever="it is resumed" />
        </>
      )}
      {script.waiting !== null && (
        <>
          {' · '}
          <Words text={wordsOfWait(script.waiting)} />
        </>
      )}
    </p>
  );
}

function wordsOfWait(job: components['schemas']['WaitingScript']): string {
  const { state, reason, since, runAt } = job;
  const times = { sinceMs: Date.parse(since ?? ''), runAtMs: Date.parse(runAt ?? '') };
  // Shown by the viewer's clock.
  const write = (atMs: number): string => (Number.isNaN(atMs) ? UNKNOWN : new Date(atMs).toISOString());
  const words = describeWait({ ...job, ...times }, serverNow.value, write);
  return reason === null || state === 'linked' ? words : `${words}: ${reason}`;
}

/** `daily at 02:30, Europe/Berlin` */
function describeTimes({ schedule, timezone }: components['schemas']['NextTime']): string {
  return [schedule ?? 'after each boot', timezone].filter((part) => part !== null).join(', ');
}

/** Usual figures of its successful runs. */
function Usual({ script: { usual, slower, heavier } }: { readonly script: ScriptAnswer }) {
  if (usual.runs === 0) return null;
  return (
    <Section title="What is usual">
      <p class="quiet">
        The middle of its last {countOf(usual.runs, 'successful run')}
        {(slower ?? heavier) !== null && '; of what is above the usual, of those before'}.
      </p>
      <FigureList>
        <FigureItem label="Duration">{formatDuration(usual.durationMs)}</FigureItem>
        <FigureItem label="Memory">{formatBytes(usual.maxRssBytes)}</FigureItem>
        <FigureItem label="Output">{formatBytes(usual.outputBytes)}</FigureItem>
        {Object.entries(usual.counts).map(([name, count]) => (
          <FigureItem key={name} label={name}>
            {formatNumber(count)}
          </FigureItem>
        ))}
      </FigureList>
    </Section>
  );
}

/** When which content of its file first ran. */
function Versions({ script: { versions } }: { readonly script: ScriptAnswer }) {
  if (versions.length === 0) return null;
  return (
    <Section title="Contents of its file">
      <ol class="versions">
        {versions.map(({ contentHash, firstRunAt }, index) => (
          <li key={`${contentHash}${firstRunAt}`}>
            <code>{contentHash.slice(0, 12)}</code> since <Time at={firstRunAt} />
            {index === 0 && <span class="quiet"> · the one of now</span>}
          </li>
        ))}
      </ol>
    </Section>
  );
}

const tones: Readonly<Record<string, Tone>> = { fine: 'good', notable: 'warning', wrong: 'bad' };

/** Why it did or didn't run: one sentence, what is unusual, and on request all that it was concluded from. */
function WhySection({ why: { conclusion, findings } }: { readonly why: components['schemas']['Why'] }) {
  return (
    <Section title="Why it does or doesn’t run">
      <p>
        <Words text={conclusion} />
      </p>
      <Findings findings={findings.filter(({ verdict }) => verdict !== 'fine')} />
      <details>
        <summary>All that was looked at</summary>
        <Findings findings={findings} />
      </details>
    </Section>
  );
}

interface FindingsProps {
  readonly findings: components['schemas']['Why']['findings'];
}

function Findings({ findings }: FindingsProps) {
  if (findings.length === 0) return null;
  return (
    <ul class="findings">
      {findings.map(({ topic, verdict, text, cure }) => (
        <li key={`${topic} ${text}`}>
          <State state={verdict} tone={tones[verdict] ?? 'unknown'} word={topic} /> <Words text={text} />
          {cure !== null && (
            <span class="quiet">
              {' '}
              → <Words text={cure} />
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
