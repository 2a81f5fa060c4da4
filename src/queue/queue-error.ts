/**
 * `invalid`: an argument. `no-such-job`. `wrong-state`: the job is not in a state for that.
 * `stale-claim`: another has the job by now, or nobody.
 */
export type QueueErrorCode = 'invalid' | 'no-such-job' | 'wrong-state' | 'stale-claim';

/** Wrong use of the queue, told in one sentence. */
export class QueueError extends Error {
  override readonly name = 'QueueError';
  readonly code: QueueErrorCode;

  constructor(code: QueueErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
