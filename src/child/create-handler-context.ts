import { abortOnTermination } from './abort-on-termination.ts';
import { describeReason } from './describe-error.ts';
import type { HandlerChildren, HandlerContext, RetryRequest } from './handler-context.ts';
import type { HandlerJob } from './handler-contract.ts';
import { toJsonText } from './json-text.ts';
import type { SpokenAsk } from './probe-contract.ts';

/** Ends a handler from within; what it asked for is kept elsewhere, should it catch this. */
export class AskedToEnd extends Error {
  override readonly name = 'AskedToEnd';
}

/** A handler's context, and what became of it. */
export interface OpenContext {
  readonly context: HandlerContext;
  /** What it asked for first. */
  asked(): SpokenAsk | undefined;
  /** To be called when the handler has ended. */
  close(): void;
}

const noChildren: HandlerChildren = { finished: [], failed: [], cancelled: [] };

/** @param sendUpdate fulfilled once the data is in the log */
export function createHandlerContext(
  job: HandlerJob,
  sendUpdate: (data: string) => Promise<void>,
): OpenContext {
  let asked: SpokenAsk | undefined;
  let isOpen = true;
  let termination: ReturnType<typeof abortOnTermination> | undefined;
  const end = (ask: SpokenAsk): never => {
    asked ??= ask;
    throw new AskedToEnd(`${ask.kind}() ends the handler by this error: let it through`);
  };
  const context: HandlerContext = {
    id: job.id,
    name: job.name,
    data: JSON.parse(job.data),
    attempt: job.attempt,
    scheduledFor: toDate(job.scheduledFor),
    latenessMs: job.latenessMs,
    lastSuccess: toDate(job.lastSuccess),
    previouslyCrashed: job.previouslyCrashed,
    parentData: job.parentData === null ? null : JSON.parse(job.parentData),
    children: job.children === null ? noChildren : JSON.parse(job.children),
    // Only who asks for the signal takes over the duty to end: others die of SIGTERM as usual.
    get signal() {
      termination ??= abortOnTermination();
      return termination.signal;
    },
    // What a handler says after its end would stand in another run's output.
    log: (...values) => isOpen && console.log(...values),
    update: (data) => (isOpen ? update(data, sendUpdate) : Promise.resolve()),
    retry: (options) => end(toRetry(options)),
    fail: (reason) => end({ kind: 'fail', reason: describeReason(reason) }),
  };
  return {
    context,
    asked: () => asked,
    close: () => {
      isOpen = false;
      termination?.stop();
    },
  };
}

function toDate(instant: number | null): Date | null {
  return instant === null ? null : new Date(instant);
}

/** Who does not wait for it need not catch it either. */
function update(data: unknown, send: (data: string) => Promise<void>): Promise<void> {
  const json = toJsonText(data);
  const sent =
    'text' in json
      ? send(json.text)
      : Promise.reject(new TypeError(`update(): the data ${json.problem}`));
  sent.catch(() => {});
  return sent;
}

const retryOptions = ['delay', 'priority', 'name', 'data'];

/** A slip such as `dely` must not pass for a default, nor `retry('5m')`. */
function assertRetry(request: unknown): void {
  const isRequest = typeof request === 'object' && request !== null;
  const found = isRequest
    ? Object.keys(request)
    : [typeof request === 'string' ? JSON.stringify(request) : String(request)];
  const wrong = found.find((each) => !isRequest || !retryOptions.includes(each));
  if (wrong === undefined) return;
  throw new TypeError(`retry() takes { ${retryOptions.join(', ')} }, found ${wrong}`);
}

function toRetry(request: RetryRequest = {}): SpokenAsk {
  assertRetry(request);
  const { delay, priority, name, data } = request;
  // Whether it can have that is for the runner to say; here it must only come as far as there.
  const words = JSON.parse(writeFor('what it asks for', { delay, priority, name }));
  return {
    kind: 'retry',
    ...words,
    ...(data !== undefined && { data: writeFor('the data', data) }),
  };
}

function writeFor(what: string, value: unknown): string {
  const json = toJsonText(value);
  if ('text' in json) return json.text;
  throw new TypeError(`retry(): ${what} ${json.problem}`);
}
