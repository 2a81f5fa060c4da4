import { countSucceeded, formatBytes, formatDuration, formatPeriod } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { State } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name, RunLink, Words } from '../../components/text.tsx';
import { Countdown, Elapsed, serverNow, Time } from '../../components/time.tsx';
import { isStatic } from '../../data.ts';
import { PauseButton } from '../../manage/pause.tsx';
import { StopRun } from '../../manage/stop-run.tsx';
import { hrefOf } from '../../router.ts';

type Schemas = components['schemas'];
export type OverviewAnswer = Schemas['Overview'];
export type StatusAnswer = Schemas['Status'];

type TierState = StatusAnswer['tiers'][number];
type LastPass = OverviewAnswer['tiers'][number]['lastPass'];

interface TierRow extends TierState {
  readonly pass: LastPass;
}

/** When each tier ran last, what came of it, and when it runs again. */
export function Tiers({ overview, status }: { readonly overview: OverviewAnswer; readonly status: StatusAnswer }) {
  const passes = new Map(overview.tiers.map(({ tier, lastPass }) => [tier, lastPass]));
  const rows = status.tiers.map((state): TierRow => ({ ...state, pass: passes.get(state.tier) ?? null }));
  return <Table caption="Tiers" columns={columns} rows={rows} keyOf={({ tier }) => tier} />;
}

const columns: readonly TableColumn<TierRow>[] = [
  {
    title: 'Tier',
    isName: true,
    onPhone: 'title',
    cell: ({ tier, periodMs }) => (
      <>
        <a href={hrefOf('/scripts', null, { tier })}>
          <Name text={tier} />
        </a>
        <span class="quiet small period">{periodMs === null ? 'runs by hand' : formatPeriod(periodMs)}</span>
      </>
    ),
  },
  { title: 'Last pass', cell: ({ pass, lastPass }) => <LastPassed pass={pass} at={lastPass?.startedAt ?? null} /> },
  { title: 'Next', cell: (row) => <NextCall {...row} /> },
  {
    title: 'Pause',
    isTitleHidden: true,
    cell: ({ tier, pause }) => <PauseButton name={tier} pause={pause} />,
  },
];

function LastPassed({ pass, at }: { readonly pass: LastPass; readonly at: string | null }) {
  if (at === null) return <span class="quiet">never</span>;
  return (
    <span class="stack">
      {pass !== null && <PassResult pass={pass} />}
      <Time at={at} />
    </span>
  );
}

function PassResult({ pass }: { readonly pass: NonNullable<LastPass> }) {
  const { state, succeeded, withWarning, failed } = pass;
  if (state === 'crashed') return <State state="crashed" />;
  if (state === 'running') return <State state="running" />;
  if (failed > 0) return <State state="failed" word={`${failed} of ${failed + succeeded} failed`} />;
  if (succeeded === 0) return <State state="ended" tone="ended" word="nothing to do" />;
  return <State state={withWarning > 0 ? 'warning' : 'succeeded'} word={countSucceeded(succeeded, withWarning)} />;
}

interface NextCallProps extends TierState {
  /** Without the time beside the countdown. */
  readonly isBrief?: boolean;
}

/** As `runner status` tells it. */
export function NextCall({ isBrief = false, ...state }: NextCallProps) {
  const { tier, holder, pause, periodMs, isUncalled, nextCall, isOverdue, isDueAgain } = state;
  if (holder !== null) return <State state="running" word={holder.kind === 'backlog' ? 'its backlog' : 'running'} />;
  if (pause !== null) return <Paused pause={pause} of={tier} />;
  if (periodMs === null && nextCall === null) return <span class="quiet">by hand</span>;
  if (isUncalled) return <State state="overdue" word="no crontab line calls it" />;
  if (nextCall === null) return <span class="quiet">cron has not called it yet</span>;
  if (isOverdue) {
    return (
      <span class="stack">
        <State state="overdue" />
        <span>
          since <Time at={nextCall} as="short" />: cron has not called it
        </span>
      </span>
    );
  }
  // Nothing comes nearer in a report.
  if (isStatic) return <Time at={nextCall} as="short" />;
  if (isDueAgain) return <Words text="with the next call of `npx folder-runner due`" />;
  if (Date.parse(nextCall) <= serverNow.value) return <State state="queued" word="due" />;
  if (isBrief) return <Countdown until={nextCall} />;
  return (
    <span class="stack">
      <Countdown until={nextCall} />
      <span class="quiet small">
        <Time at={nextCall} as="short" />
      </span>
    </span>
  );
}

type Pause = NonNullable<TierState['pause']>;

/** `paused until 16:00`; of what is paused as a part of more, also of what. */
export function Paused({ pause: { name, until }, of }: { readonly pause: Pause; readonly of: string }) {
  const part = name === of ? '' : name === '*' ? ' with everything' : ` with ${name}`;
  return (
    <span class="stack">
      <State state="paused" word={`paused${part}`} />
      {until !== null && (
        <span class="quiet small">
          until <Time at={until} as="short" />
        </span>
      )}
    </span>
  );
}

type StatusRun = StatusAnswer['running'][number];

/** Runs under way, with their progress against the usual duration. */
export function Running({ runs }: { readonly runs: readonly StatusRun[] }) {
  return (
    <ul class="running">
      {runs.map((run) => (
        <li key={run.id} class="card">
          <RunningRun {...run} />
        </li>
      ))}
    </ul>
  );
}

function RunningRun(run: StatusRun) {
  const { id, script, startedAt, usualDurationMs, maxRssBytes, attempt } = run;
  const more = [
    usualDurationMs === null ? '' : `usually ${formatDuration(usualDurationMs)}`,
    attempt > 1 ? `try ${attempt}` : '',
    maxRssBytes === null ? '' : formatBytes(maxRssBytes),
  ].filter(Boolean);
  return (
    <>
      <p class="states">
        <Liveness {...run} />
        <RunLink id={id}>
          <Name text={script} />
        </RunLink>
        <span>
          for <Elapsed since={startedAt} />
        </span>
        {id !== null && <StopRun run={{ id, script, startedAt }} />}
      </p>
      {usualDurationMs !== null && usualDurationMs > 0 && startedAt !== null && (
        <progress
          aria-label={`${script}: part of its usual duration`}
          max={usualDurationMs}
          value={Math.max(0, Math.min(usualDurationMs, serverNow.value - Date.parse(startedAt)))}
        />
      )}
      {more.length > 0 && <p class="quiet small">{more.join(' · ')}</p>}
    </>
  );
}

/** Beyond that it is worth a look. */
const SLOW = 2;

function Liveness({ liveness, isOrphan, startedAt, usualDurationMs }: StatusRun) {
  if (liveness === 'dead') return <State state="crashed" word="its process is gone" />;
  if (isOrphan) return <State state="running" tone="warning" word="runs without its runner" />;
  const elapsed = startedAt === null ? 0 : serverNow.value - Date.parse(startedAt);
  // A second or two more than nothing is not slow.
  if (usualDurationMs !== null && elapsed > Math.max(5000, usualDurationMs * SLOW)) {
    return <State state="running" tone="warning" word="longer than usual" />;
  }
  return <State state="running" />;
}
