import {
  DEEPEST_JSON,
  type HandlerEnd,
  type HandlerJob,
  isTooDeep,
  MAX_JSON_BYTES,
  type SpokenAsk,
} from './contract.ts';
import { openLog } from './counts.ts';
import type { HandlerChildren, HandlerContext, RetryRequest } from './handler-context.ts';
import { cutMessage, describeError, describeReason, type Unsettled } from './record-end.ts';

/** Kept from before any job, as one may replace them. */
const { parse, stringify } = JSON;

/** As programs say it: try again later. */
const RETRY_EXIT_CODE = 75;

/** Calls a handler for one job: however that ends, it is a value. */
export async function callHandler(
  exported: unknown,
  path: string,
  job: HandlerJob,
  sendUpdate: (data: string) => Promise<void>,
): Promise<HandlerEnd> {
  const handler = findDefault<HandlerContext>(exported);
  if (handler === null) return refuse(describeNoFunction(path));
  let opened: OpenContext;
  try {
    opened = createHandlerContext(job, sendUpdate);
  } catch (error) {
    return refuse(`the job's data is no JSON: ${(error as Error).message}`);
  }
  return await callWith(handler, opened);
}

async function callWith(
  handler: DefaultFunction<HandlerContext>,
  { context, asked, close }: OpenContext,
): Promise<HandlerEnd> {
  try {
    const returned = await handler(context);
    return endAsked(asked()) ?? endWithResult(returned);
  } catch (thrown) {
    return endAsked(asked()) ?? { exitCode: 1, error: describeError(thrown) };
  } finally {
    close();
  }
}

/** What it asked for counts also where it caught what was thrown for that. */
function endAsked(ask: HandlerEnd['ask']): HandlerEnd | null {
  if (ask === undefined) return null;
  return { exitCode: ask.kind === 'retry' ? RETRY_EXIT_CODE : 1, error: null, ask };
}

function endWithResult(returned: unknown): HandlerEnd {
  if (returned === undefined) return { exitCode: 0, error: null };
  const json = toJsonText(returned);
  if ('problem' in json) return refuse(`what the handler returned ${json.problem}`);
  return { exitCode: 0, error: null, result: json.text };
}

function refuse(refusal: string): HandlerEnd {
  return { exitCode: 1, error: null, refusal };
}

function describeNoFunction(path: string): string {
  return `${path} exports no function to call; a handler needs one, as in: export default async ({ data }) => { … }`;
}

/** Ends a handler from within; what it asked for is kept elsewhere, should it catch this. */
class AskedToEnd extends Error {
  override readonly name = 'AskedToEnd';
}

/** A handler's context, and what became of it. */
interface OpenContext {
  readonly context: HandlerContext;
  /** What it asked for first. */
  asked(): SpokenAsk | undefined;
  /** To be called when the handler has ended. */
  close(): void;
}

const noChildren: HandlerChildren = { finished: [], failed: [], cancelled: [] };

/** @param sendUpdate fulfilled once the data is in the log */
function createHandlerContext(job: HandlerJob, sendUpdate: (data: string) => Promise<void>): OpenContext {
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
    data: parse(job.data),
    dataText: job.data,
    attempt: job.attempt,
    scheduledFor: toDate(job.scheduledFor),
    latenessMs: job.latenessMs,
    lastSuccess: toDate(job.lastSuccess),
    previouslyCrashed: job.previouslyCrashed,
    parentData: job.parentData === null ? null : parse(job.parentData),
    children: job.children === null ? noChildren : parse(job.children),
    // Only who asks for the signal takes over the duty to end: others die of SIGTERM as usual.
    get signal() {
      termination ??= abortOnTermination();
      return termination.signal;
    },
    log: openLog(() => isOpen),
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
  const sent = 'text' in json ? send(json.text) : Promise.reject(new TypeError(`update(): the data ${json.problem}`));
  sent.catch(() => {});
  return sent;
}

const retryOptions = ['delay', 'runAt', 'failure', 'priority', 'name', 'data'];

/** A slip such as `dely` must not pass for a default, nor `retry('5m')`. */
function assertRetry(request: unknown): void {
  const isRequest = typeof request === 'object' && request !== null;
  const found = isRequest ? Object.keys(request) : [typeof request === 'string' ? stringify(request) : String(request)];
  const wrong = found.find((each) => !isRequest || !retryOptions.includes(each));
  if (wrong === undefined) return;
  throw new TypeError(`retry() takes { ${retryOptions.join(', ')} }, found ${wrong}`);
}

function toRetry(request: RetryRequest = {}): SpokenAsk {
  assertRetry(request);
  const { delay, runAt, priority, name, data } = request;
  const failure = request.failure === undefined ? undefined : describeReason(request.failure);
  // Whether it can have that is for the runner to say; here it must only come as far as there.
  const words = parse(writeFor('its argument', { delay, runAt, failure, priority, name }));
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

type DefaultFunction<Context> = (context: Context) => unknown;

/** `export default`, `exports.default` or `module.exports =` a function. */
export function findDefault<Context>(exported: unknown): DefaultFunction<Context> | null {
  if (typeof exported === 'function') {
    return isClass(exported) ? null : (exported as DefaultFunction<Context>);
  }
  if (typeof exported !== 'object' || exported === null) return null;
  const { default: inner } = exported as { readonly default?: unknown };
  return inner === exported ? null : findDefault(inner);
}

/** Made for others to use; it cannot be called. */
function isClass(exported: object): boolean {
  return Function.prototype.toString.call(exported).startsWith('class');
}

/** A signal that is aborted by SIGTERM; until it is stopped, SIGTERM does not end the process. */
export function abortOnTermination(): { readonly signal: AbortSignal; stop(): void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  process.once('SIGTERM', abort);
  return { signal: controller.signal, stop: () => process.off('SIGTERM', abort) };
}

/** The text, or why there is none: the end of a sentence that begins with what it is of. */
type JsonText = { readonly text: string } | { readonly problem: string };

/** Writes a value as JSON. What JSON has no word for at all, such as a function, is refused, too. */
export function toJsonText(value: unknown): JsonText {
  let text: string | undefined;
  try {
    text = stringify(value);
  } catch (error) {
    return { problem: `cannot be written as JSON: ${firstLine(error)}` };
  }
  if (text === undefined) return { problem: `cannot be written as JSON: it is ${nameOf(value)}` };
  const bytes = text.length * 3 > MAX_JSON_BYTES ? Buffer.byteLength(text) : 0;
  if (bytes > MAX_JSON_BYTES) {
    return { problem: `is ${bytes} bytes of JSON, and at most ${MAX_JSON_BYTES} are kept` };
  }
  if (!isTooDeep(text)) return { text };
  return { problem: `is JSON nested deeper than ${DEEPEST_JSON}, and no deeper is kept` };
}

/** V8 draws the circle in further lines. */
function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return cutMessage(message.split('\n', 1)[0]);
}

function nameOf(value: unknown): string {
  return value === undefined ? 'undefined' : `a ${typeof value}`;
}

/** Why a handler has not ended although its process does, with exit code 0. */
export function describeUnsettled(hasRunOut: boolean): Unsettled {
  const sentence = hasRunOut
    ? "the handler's promise never settled"
    : 'process.exit(0) was called before the handler had ended';
  return { sentence };
}
