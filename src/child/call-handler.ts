import { createHandlerContext, type OpenContext } from './create-handler-context.ts';
import { describeError } from './describe-error.ts';
import { type DefaultFunction, findDefault } from './find-default.ts';
import type { HandlerContext } from './handler-context.ts';
import type { HandlerJob } from './handler-contract.ts';
import { toJsonText } from './json-text.ts';
import type { HandlerEnd } from './probe-contract.ts';

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
  return `${path} exports no function to call; a handler expects one, as in: export default async ({ data }) => { … }`;
}
