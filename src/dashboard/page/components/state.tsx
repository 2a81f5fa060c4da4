import { describeOutcome, hasWarning } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';

/** One line each, drawn in a square of 24. */
const drawings = {
  overview: 'M4 13h6V4H4zM14 20h6V11h-6zM4 20h6v-3H4zM14 7h6V4h-6z',
  scripts: 'M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6',
  runs: 'M7 4v16l13-8z',
  queue: 'M4 6h16M4 12h16M4 18h10',
  workers: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2',
  activity: 'M3 12h4l3-8 4 16 3-8h4',
  metrics: 'M4 20V10M10 20V4M16 20v-7M21 20H3',
  incidents: 'M12 3 2 20h20zM12 10v4M12 17v.5',
  settings: 'M4 7h10M18 7h2M4 17h2M10 17h10M14 5v4M6 15v4',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  good: 'M20 6 9 17l-5-5',
  bad: 'M6 6l12 12M18 6 6 18',
  warning: 'M12 4v10M12 18v1',
  live: 'M7 4v16l13-8z',
  waiting: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 7v5l3 2',
  paused: 'M8 5v14M16 5v14',
  ended: 'M5 12h14',
  unknown: 'M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.5',
  search: 'M10 4a6 6 0 1 0 0 12 6 6 0 0 0 0-12M15 15l5 5',
  copy: 'M8 8h12v12H8zM4 16V4h12',
  rising: 'M12 19V5M6 11l6-6 6 6',
  falling: 'M12 5v14M6 13l6 6 6-6',
  next: 'M9 5l7 7-7 7',
} as const;

export type IconName = keyof typeof drawings;

/** Says nothing to screen readers: a word is beside each. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={drawings[name]} />
    </svg>
  );
}

/** How a state is to be taken. Each has a colour, an icon of its name and a word, as not everybody sees colours. */
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
  stopped: 'ended',
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
  linked: 'waiting',
  waiting: 'waiting',
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

/** Neither given back nor stopped, nor still running nor well. */
export function isFailedRun(outcome: Outcome): boolean {
  return toneOfOutcome[outcome] === 'bad';
}

/** All outcomes that are failures, as the API's filter takes them. */
export const FAILED = runOutcomes.filter(isFailedRun).join();

/** Outcomes and states whose code is no word. */
const wordOf: Readonly<Record<string, string>> = {
  'timed-out': 'timed out',
  'not-started': 'not started',
  released: 'given back',
  linked: 'waits',
  ok: 'fine',
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
      <Icon name={tone} />
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
