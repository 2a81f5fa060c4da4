import { isRefusal } from '../../store/failures.ts';
import type { NewEvent } from '../../store/statements/events.ts';
import type { NewJobRow } from '../../store/statements/jobs.ts';
import type { StoreSession } from '../../store/store.ts';

/** The jobs of one call, added all or none; nothing in the log can prevent that. */
interface PlainJobs {
  readonly rows: readonly NewJobRow[];
  /** Null: it is not recorded. */
  readonly actor: string | null;
}

/** Adds what several calls gave, in its order, and returns the numbers. To be called in a transaction. */
export async function addTogether(session: StoreSession, calls: readonly PlainJobs[], at: number): Promise<number[]> {
  const jobs = calls.flatMap(({ rows, actor }) => rows.map((row) => ({ row, actor })));
  const ids = await session.jobs.add(
    jobs.map(({ row }) => row),
    at,
  );
  const events = jobs.flatMap(({ actor }, index): NewEvent[] =>
    actor === null ? [] : [{ at, event: 'job-added', jobId: ids[index] as number, actor }],
  );
  if (events.length > 0) await session.events.record(events);
  return ids;
}

/** A transaction of so much holds up its program for a few milliseconds. A call that adds more has one of its own. */
const MOST_ROWS = 100;
const MOST_CHARACTERS = 256 * 1024;

interface Waiting {
  readonly jobs: PlainJobs;
  readonly resolve: (ids: number[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Calls that come while a write is under way share the next one, and so do those of the same tick: one transaction, one
 * wait for the disk. Calls are written in their order.
 *
 * @param write whole or not at all; returns the numbers of all jobs
 */
export function shareWrites(
  write: (calls: readonly PlainJobs[]) => Promise<number[]>,
): (jobs: PlainJobs) => Promise<number[]> {
  const waiting: Waiting[] = [];
  let isWriting = false;

  const settle = async (calls: readonly Waiting[]): Promise<void> => {
    try {
      const ids = await write(calls.map(({ jobs }) => jobs));
      for (const { jobs, resolve } of calls) resolve(ids.splice(0, jobs.rows.length));
    } catch (error) {
      // A refused row is the fault of one call: all others are as good by themselves.
      if (calls.length > 1 && isRefusal(error)) for (const call of calls) await settle([call]);
      else for (const { reject } of calls) reject(error);
    }
  };
  const writeAll = async (): Promise<void> => {
    isWriting = true;
    await Promise.resolve();
    while (waiting.length > 0) await settle(waiting.splice(0, countFitting(waiting)));
    isWriting = false;
  };

  return (jobs) =>
    new Promise((resolve, reject) => {
      waiting.push({ jobs, resolve, reject });
      if (!isWriting) void writeAll();
    });
}

/** How many of them are written together: at least one. */
function countFitting(calls: readonly Waiting[]): number {
  let [rows, characters, count] = [0, 0, 0];
  for (const { jobs } of calls) {
    rows += jobs.rows.length;
    characters += jobs.rows.reduce((sum, { data }) => sum + (data?.length ?? 0), 0);
    if (count > 0 && (rows > MOST_ROWS || characters > MOST_CHARACTERS)) break;
    count += 1;
  }
  return count;
}
