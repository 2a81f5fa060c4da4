interface WaitingJob {
  readonly state: 'queued' | 'claimed' | 'deferred' | 'linked' | 'retrying';
  readonly reason: string | null;
  readonly attempts: number;
  readonly sinceMs: number;
  readonly runAtMs: number;
}

/**
 * `try 2 due 3 Nov 14:10`; `deferred, waiting since 3 Nov 14:02`; `waits for daily/dump, which is queued`. Why it was
 * deferred, or failed, is said besides.
 *
 * @param write an instant in words
 */
export function describeWait(job: WaitingJob, nowMs: number, write: (atMs: number) => string): string {
  const { state, reason, attempts, sinceMs, runAtMs } = job;
  if (state === 'queued') return 'next in line';
  if (state === 'claimed') return 'begins in a moment';
  if (state === 'linked') return `${reason ?? 'waits for other scripts'}; queued since ${write(sinceMs)}`;
  if (state === 'deferred') return `deferred, waiting since ${write(sinceMs)}`;
  return `try ${attempts + 1} ${runAtMs <= nowMs ? 'due with the next call' : `due ${write(runAtMs)}`}`;
}

/** How a script waits for others, before their names. */
export const linkWords = {
  after: 'after',
  afterFailure: 'after a failure of',
  always: 'after any end of',
} as const;

/** How a script of a chain stands. `waiting`: queued, for the ends of others. `never`: it was never queued. `unknown`: the log cannot be read. */
export const chainWords = {
  running: 'running',
  retrying: 'to be tried again',
  failed: 'failed',
  waiting: 'waits',
  queued: 'queued',
  stopped: 'stopped',
  succeeded: 'succeeded',
  paused: 'paused',
  disabled: 'disabled',
  never: 'never ran',
  unknown: 'not known',
} as const;

export type ChainState = keyof typeof chainWords;

/** Whether it stands so since an instant, rather than from it on. */
export const isSince = (state: ChainState): boolean => ['running', 'waiting', 'queued'].includes(state);

export const chainStates = Object.keys(chainWords) as [ChainState, ...ChainState[]];

interface NamedLink {
  readonly kind: keyof typeof linkWords;
  readonly script: string;
}

/** `after daily/dump and daily/fetch; after a failure of daily/a or daily/b` */
export function describeLinks(links: readonly NamedLink[]): string {
  return [...Map.groupBy(links, ({ kind }) => kind)]
    .map(([kind, ofKind]) => {
      const names = ofKind.map(({ script }) => script);
      return `${linkWords[kind]} ${names.join(kind === 'afterFailure' ? ' or ' : ' and ')}`;
    })
    .join('; ');
}

interface PassOfTier {
  readonly tier: string;
  readonly scripts: readonly string[];
  readonly linked: readonly {
    readonly script: string;
    readonly links: readonly NamedLink[];
    readonly between: string | null;
    readonly except: readonly string[];
  }[];
}

/** Its scripts without their tier: `backup`, `report (after daily/backup)`, `heavy (between 22:00 and 05:00)`. */
export function namesInPass({ tier, scripts, linked }: PassOfTier): string[] {
  const conditions = new Map(
    linked.map(({ script, links, between, except }) => {
      const window = between === null ? '' : `between ${between}`;
      const dates = except.length === 0 ? '' : `except ${except.join(' and ')}`;
      return [script, [describeLinks(links), window, dates].filter(Boolean).join('; ')];
    }),
  );
  return scripts.map((script) => {
    const name = script.slice(tier.length + 1);
    return conditions.has(script) ? `${name} (${conditions.get(script)})` : name;
  });
}

/** Why something did not come, for the terminal and the page. */
export const lateWords = {
  'not-called': 'cron has not called it',
  'no-line': 'no crontab line calls it',
  waits: 'waits for a pass of its tier',
  'no-call': 'no call of a tier is expected',
  'no-handler': 'no handler in jobs/queue/ has this name',
  'no-worker': 'nobody processes the queue',
  paused: 'paused',
} as const;

/** Why something runs then. */
export const reasonWords = {
  call: 'call of the tier',
  schedule: 'its schedule',
  queued: 'next in a pass at work',
  deferred: 'was deferred',
  retry: 'next try',
  due: 'due',
  delay: 'delayed until then',
  repeat: 'repeats',
  after: 'by usual durations',
  window: 'its window begins',
} as const;

/**
 * Why a script or a job runs then, a few words each.
 *
 * @param waits the scripts that it waits for, in words; empty: none
 */
export function describeComing(
  { reason, rule }: { readonly reason: NextReason; readonly rule: string | null },
  waits: string,
): string[] {
  const isGated = reason === 'after' || reason === 'window';
  return [rule ?? (isGated ? '' : reasonWords[reason]), waits, isGated ? reasonWords[reason] : ''].filter(Boolean);
}

export type LateCode = keyof typeof lateWords;
export type NextReason = keyof typeof reasonWords;

export const lateCodes = Object.keys(lateWords) as [LateCode, ...LateCode[]];
export const nextReasons = Object.keys(reasonWords) as [NextReason, ...NextReason[]];
