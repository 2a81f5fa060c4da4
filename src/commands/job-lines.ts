import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import type { NewJob } from '../queue/queue.ts';
import { QueueError } from '../queue/queue-error.ts';
import { printableLine } from '../report/printable.ts';
import { parseJson } from './read-json.ts';

/** A job of a list, and where it stands in it. */
export interface JobLine {
  readonly line: number;
  readonly job: NewJob<unknown>;
}

const keys: Readonly<Record<keyof NewJob, true>> = {
  name: true,
  data: true,
  runAt: true,
  priority: true,
  retries: true,
  retryDelay: true,
  uniqueKey: true,
  onDuplicate: true,
  repeat: true,
  missed: true,
  parent: true,
  onChildFailure: true,
  group: true,
  lease: true,
};

/**
 * The jobs of a text with one JSON object a line; empty lines count as lines only.
 *
 * @throws {UsageError} that names the first wrong line
 */
export function readJobLines(text: string): JobLine[] {
  return text
    .split('\n')
    .map((content, index) => ({ content: content.trim(), line: index + 1 }))
    .filter(({ content }) => content !== '')
    .map(({ content, line }) => ({ line, job: readJob(content, line) }));
}

function readJob(content: string, line: number): NewJob<unknown> {
  const job = parseJson(content, `Line ${line}`, '{"name":"mail/welcome","data":{}}');
  if (typeof job !== 'object' || job === null || Array.isArray(job)) {
    throw new UsageError(
      `Line ${line} expects an object such as {"name":"mail/welcome","data":{}}.`,
    );
  }
  for (const key of Object.keys(job)) if (!Object.hasOwn(keys, key)) throw unknownKey(key, line);
  // Only data is passed on; a number among the options is to be one.
  const options = JSON.parse(content) as NewJob<unknown>;
  return 'data' in job ? { ...options, data: job.data } : options;
}

function unknownKey(key: string, line: number): UsageError {
  const nearest = nearestName(key, Object.keys(keys));
  const hint =
    nearest === null ? `a job has ${Object.keys(keys).join(', ')}.` : `did you mean ${nearest}?`;
  return new UsageError(
    `Line ${line}: ${JSON.stringify(printableLine(key))} is nothing that a job has; ${hint}`,
  );
}

/** The queue counts jobs, who wrote them counts lines. */
export function nameLine(error: unknown, lines: readonly JobLine[]): unknown {
  if (!(error instanceof QueueError)) return error;
  const [prefix = '', number] = /^Job (\d+) of \d+ (?=\()/.exec(error.message) ?? [];
  const isOnly = number === undefined && lines.length === 1;
  const found = lines[isOnly ? 0 : Number(number) - 1];
  if (found === undefined) return error;
  const said = error.message.slice(prefix.length);
  return new QueueError(error.code, `Line ${found.line}${isOnly ? ':' : ''} ${said}`);
}
