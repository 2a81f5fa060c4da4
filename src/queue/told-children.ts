import formatBytes from 'bytes';
import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { JobState } from '../store/schema.ts';
import { type ChildRow, endedChildrenOf } from './families.ts';
import { readStoredJson } from './stored-json.ts';

/** It is held several times at once, here and in the handler's process. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Of a child besides its name, its data and its result. */
const FRAME_BYTES = 64;

/**
 * What a handler is told of its children that have ended, as JSON: theirs is text that is only passed
 * through.
 */
export async function tellEndedChildren(db: Database, parentId: number): Promise<string> {
  const ended = await endedChildrenOf(db, parentId).execute();
  const inState = (state: JobState): string =>
    ended
      .filter((child) => child.state === state)
      .map(toText)
      .join();
  return `{"finished":[${inState('finished')}],"failed":[${inState('failed')}],"cancelled":[${inState('cancelled')}]}`;
}

/** Why a handler cannot be told of them: it is too much; null: it can. */
export async function describeUntellable(db: Database, parentId: number): Promise<string | null> {
  const [row] = await queryRaw<{ bytes: number | null }>(
    db,
    `select sum(octet_length(name) + octet_length(data) + coalesce(octet_length(result), 0) + ?) as bytes
     from jobs
     where parent_id = ? and state in ('finished', 'failed', 'cancelled') and is_told = 0`,
    [FRAME_BYTES, parentId],
  );
  const bytes = row?.bytes ?? 0;
  if (bytes <= MOST_BYTES) return null;
  return `the data and results of its children are ${size(bytes)} in all, and its handler can be told of ${size(MOST_BYTES)}; put what is large into files and name those`;
}

function toText({ id, name, data, result }: ChildRow): string {
  return `{"id":${id},"name":${JSON.stringify(name)},"data":${toJson(data)},"result":${toJson(result)}}`;
}

/** Plain SQL may have written what is no JSON. */
function toJson(text: string | null): string | null {
  return readStoredJson(text) === null ? null : text;
}

function size(bytes: number): string {
  return formatBytes(bytes, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;
}
