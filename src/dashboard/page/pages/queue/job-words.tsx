import type { components } from '../../../client/paths.ts';
import { State } from '../../components/state.tsx';
import { Time } from '../../components/time.tsx';

export type ShownJob = Omit<components['schemas']['ListedJob'], 'data' | 'result' | 'dataBytes' | 'resultBytes'>;

/** Which jobs are listed, as the address has it; undefined: whichever. */
export interface JobFilters {
  readonly name: string | undefined;
  /** A key of `countedStates`. */
  readonly state: string | undefined;
  /** Added since then: `12h`, `2026-11-01`. */
  readonly since: string | undefined;
  /** Added before then. */
  readonly until: string | undefined;
  /** In data, result or reason. */
  readonly search: string | undefined;
}

/** The page's clock ticks once a second: what has just become due is no later for that. */
const TICK_MS = 1500;

function isLater(runAt: string | null, nowMs: number): boolean {
  return runAt !== null && Date.parse(runAt) > nowMs + TICK_MS;
}

interface OfJob {
  readonly job: ShownJob;
  readonly nowMs: number;
}

/** How a job stands, in the words of its queue: one that is queued is due, or delayed. */
export function ShownJobState({ job: { state, runAt, pause }, nowMs }: OfJob) {
  if (pause !== null) return <State state="paused" word={pause.kind === 'pause' ? 'held by a pause' : 'will fail'} />;
  if (state === 'claimed') return <State state="running" />;
  if (state === 'paused') return <State state="waiting" tone="waiting" word="waits for others" />;
  if (state !== 'queued') return <State state={state} />;
  return isLater(runAt, nowMs) ? <State state="delayed" /> : <State state="ready" word="due" />;
}

/** When it is due, or has begun, or has ended, as its state asks for. */
export function JobTime({ job, nowMs }: OfJob) {
  const { state, runAt, startedAt, finishedAt } = job;
  if (state === 'running' || state === 'claimed') {
    return (
      <>
        since <Time at={startedAt} />
      </>
    );
  }
  if (finishedAt !== null) return <Time at={finishedAt} />;
  if (state === 'paused') return <>when its parent or children have ended</>;
  const isDue = runAt !== null && !isLater(runAt, nowMs);
  return (
    <>
      {isDue && 'due since '}
      <Time at={runAt} />
    </>
  );
}

/** `1 of 4`; without the number of tries that only its handler knows: `1`. */
export function describeTries({ attempts, maxAttempts }: Pick<ShownJob, 'attempts' | 'maxAttempts'>): string {
  return maxAttempts === null ? String(attempts) : `${attempts} of ${maxAttempts}`;
}
