import type { HandlerChildren, HandlerContext, RetryRequest } from './contexts.ts';
import {
  DEEPEST_JSON,
  type HandlerEnd,
  type HandlerJob,
  isTooDeep,
  MAX_JSON_BYTES,
  RETRY_EXIT_CODE,
  type SpokenAsk,
} from './contract.ts';
import { openLog } from './counts.ts';
import { cutMessage, describeError, describeReason } from './record-end.ts';

/** Kept from before any job, because a job may replace them. */
const { parse, stringify } = JSON;

/** Calls a handler for one job; it never throws, however the handler ends. */
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

/** A request to end counts even if the handler caught the error that was thrown for it. */
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

/** Ends a handler from within. The request itself is kept elsewhere, in case the handler catches this error. */
class AskedToEnd extends Error {
  override readonly name = 'AskedToEnd';
}

/** A handler's context, and access to what the handler asked for. */
interface OpenContext {
  readonly context: HandlerContext;
  /** The first request of the handler; undefined: none. */
  asked(): SpokenAsk | undefined;
  /** Call it when the handler has ended. */
  close(): void;
}

const noChildren: HandlerChildren = { finished: [], failed: [], cancelled: [] };

/** @param sendUpdate its promise is fulfilled once the data is in the log */
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
    // Only a handler that reads the signal takes over the duty to end; any other dies of SIGTERM as usual.
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

/** A handler that does not await the update need not catch its failure either. */
function update(data: unknown, send: (data: string) => Promise<void>): Promise<void> {
  const json = toJsonText(data);
  const sent = 'text' in json ? send(json.text) : Promise.reject(new TypeError(`update(): the data ${json.problem}`));
  sent.catch(() => {});
  return sent;
}

const retryOptions = ['delay', 'runAt', 'failure', 'priority', 'name', 'data'];

/** Rejects a typing error such as `dely`, which must not pass for a default, and `retry('5m')`. */
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
  // The runner judges the request; here it only has to be JSON that reaches the runner.
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

/** Finds the function of `export default`, `exports.default` or `module.exports =`. */
export function findDefault<Context>(exported: unknown): DefaultFunction<Context> | null {
  if (typeof exported === 'function') {
    return isClass(exported) ? null : (exported as DefaultFunction<Context>);
  }
  if (typeof exported !== 'object' || exported === null) return null;
  const { default: inner } = exported as { readonly default?: unknown };
  return inner === exported ? null : findDefault(inner);
}

/** A class is made for others to use and cannot be called. */
export function isClass(value: unknown): boolean {
  return typeof value === 'function' && Function.prototype.toString.call(value).startsWith('class');
}

/** A signal that SIGTERM aborts. Until `stop()`, SIGTERM does not end the process. */
export function abortOnTermination(): { readonly signal: AbortSignal; stop(): void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  process.once('SIGTERM', abort);
  return { signal: controller.signal, stop: () => process.off('SIGTERM', abort) };
}

/** The text, or the problem: the end of a sentence whose subject is the value. */
type JsonText = { readonly text: string } | { readonly problem: string };

/** Writes a value as JSON. It also refuses a value that JSON cannot express, such as a function. */
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

/** V8 draws a cycle in further lines; this takes the first one. */
function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return cutMessage(message.split('\n', 1)[0]);
}

function nameOf(value: unknown): string {
  return value === undefined ? 'undefined' : `a ${typeof value}`;
}

/** Why a process ends with exit code 0 although its handler has not ended. */
export function describeUnsettled(hasRunOut: boolean): string {
  if (hasRunOut) return "the handler's promise never settled";
  return 'process.exit(0) was called before the handler had ended';
}
