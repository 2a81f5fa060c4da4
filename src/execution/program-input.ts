import type { HandlerJob } from '../child/handler-contract.ts';
import type { RunRequest } from './run-request.ts';

/** What a handler finds on its standard input; null: it is no handler. */
export function inputOf({ handler, script }: RunRequest): string | null {
  if (handler === undefined) return null;
  return script.launch.kind === 'node' ? JSON.stringify(handler.job) : toProgramLine(handler.job);
}

/** One line of JSON. The data stays as it is written: a number may have more digits than we could keep. */
function toProgramLine(job: HandlerJob): string {
  const fields: readonly (readonly [string, string])[] = [
    ['id', String(job.id)],
    ['name', JSON.stringify(job.name)],
    ['data', onOneLine(job.data)],
    ['attempt', String(job.attempt)],
    ['scheduledFor', JSON.stringify(toText(job.scheduledFor))],
    ['latenessMs', String(job.latenessMs)],
    ['lastSuccess', JSON.stringify(toText(job.lastSuccess))],
    ['previouslyCrashed', String(job.previouslyCrashed)],
    ['parentData', onOneLine(job.parentData ?? 'null')],
    ['children', onOneLine(job.children ?? '{"finished":[],"failed":[],"cancelled":[]}')],
  ];
  return `{${fields.map(([key, value]) => `"${key}":${value}`).join(',')}}\n`;
}

/** Within strings JSON writes them otherwise: here they are only white space. */
function onOneLine(json: string): string {
  return json.replace(/[\r\n]+/g, ' ');
}

function toText(instant: number | null): string | null {
  return instant === null ? null : new Date(instant).toISOString();
}
