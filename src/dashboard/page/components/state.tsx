import { describeOutcome, hasWarning } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import { Icon, type IconName } from './icon.tsx';

/** How a state is to be taken. Each has a colour, an icon and a word, as not everybody sees colours. */
export type Tone = 'good' | 'bad' | 'warning' | 'live' | 'waiting' | 'paused' | 'ended' | 'unknown';

type Outcome = components['schemas']['Outcome'];

/** An outcome that the API adds does not compile until it is judged here. */
const toneOfOutcome = {
  succeeded: 'good',
  running: 'live',
  failed: 'bad',
  'timed-out': 'bad',
  killed: 'bad',
  crashed: 'bad',
  'not-started': 'bad',
  released: 'ended',
} as const satisfies Record<Outcome, Tone>;

const toneOf: Readonly<Record<string, Tone>> = {
  ...toneOfOutcome,
  finished: 'good',
  ok: 'good',
  recovered: 'good',
  critical: 'bad',
  failing: 'bad',
  buried: 'bad',
  warning: 'warning',
  overdue: 'warning',
  retrying: 'warning',
  deferred: 'warning',
  skipped: 'warning',
  claimed: 'live',
  queued: 'waiting',
  ready: 'waiting',
  delayed: 'waiting',
  paused: 'paused',
  disabled: 'paused',
  muted: 'paused',
  acknowledged: 'paused',
  cancelled: 'ended',
  gone: 'ended',
};

export const runOutcomes = Object.keys(toneOfOutcome) as readonly Outcome[];

/** Neither given back nor still running nor well. */
export function isFailedRun(outcome: Outcome): boolean {
  return toneOfOutcome[outcome] === 'bad';
}

/** What an API's list of runs calls failures, as it wants them. */
export const FAILED = runOutcomes.filter(isFailedRun).join();

/** Outcomes and states whose code is no word. */
const wordOf: Readonly<Record<string, string>> = {
  'timed-out': 'timed out',
  'not-started': 'not started',
  released: 'given back',
  ok: 'fine',
};

const iconOf: Readonly<Record<Tone, IconName>> = {
  good: 'good',
  bad: 'bad',
  warning: 'warning',
  live: 'live',
  waiting: 'waiting',
  paused: 'paused',
  ended: 'ended',
  unknown: 'unknown',
};

/** How the state of a run, job, worker, check or incident is to be taken. */
export function toneOfState(state: string): Tone {
  return toneOf[state] ?? 'unknown';
}

/** The state in words. */
export function wordsOfState(state: string): string {
  return wordOf[state] ?? state;
}

interface StateProps {
  /** `succeeded`, `timed-out`, `queued`, `critical` … */
  readonly state: string;
  /** Another word than the state's own. */
  readonly word?: string;
  /** Another tone than the state's own. */
  readonly tone?: Tone;
}

/** The badge of a state: `✓ succeeded`. */
export function State({ state, word, tone = toneOfState(state) }: StateProps) {
  return (
    <span class={`state ${tone}`}>
      <Icon name={iconOf[tone]} />
      {word ?? wordsOfState(state)}
    </span>
  );
}

interface RunOutcomeProps {
  readonly run: { readonly outcome: string; readonly warning: string | null };
}

/** How a run ended, or that it has not. */
export function RunOutcome({ run }: RunOutcomeProps) {
  return hasWarning(run) ? <State state="warning" word={describeOutcome(run)} /> : <State state={run.outcome} />;
}
