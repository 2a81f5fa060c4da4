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
