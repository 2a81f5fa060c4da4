import type { Journal } from './journal.ts';

/** The log's journal, and what takes its place should the log be lost on the way. */
export interface Failover {
  readonly log: Journal;
  /** Whether an error means that the log is lost: any other is a defect. */
  isLost(error: unknown): boolean;
  /** Called once, at the first such error. @throws when there is no other place either */
  replace(error: unknown): Promise<Journal>;
}

/** Goes on elsewhere when the log is lost in the middle of a pass, and stays there. */
export function createFailoverJournal({ log, isLost, replace }: Failover): Journal {
  let replacement: Promise<Journal> | null = null;
  const attempt = async <T>(record: (journal: Journal) => Promise<T>): Promise<T> => {
    if (replacement !== null) return await record(await replacement);
    try {
      return await record(log);
    } catch (error) {
      if (!isLost(error)) throw error;
      // With several scripts at a time, another one may have found it lost meanwhile.
      replacement ??= replace(error);
      return await record(await replacement);
    }
  };
  return {
    begin: (job, timeoutMs) => attempt((journal) => journal.begin(job, timeoutMs)),
    readHistory: (run) => attempt((journal) => journal.readHistory(run)),
    recordProgress: (run, progress) => attempt((journal) => journal.recordProgress(run, progress)),
    end: (run, end, isRetryable) => attempt((journal) => journal.end(run, end, isRetryable)),
  };
}
