import { isEnded } from '../queue/read/list.ts';
import type { JobState } from '../store/schema.ts';

import type { BadJob, ForeignJob, ForeignQueue, GoodJob } from './foreign-queue.ts';

/** What is done with a job of the file. */
export type ImportStep = ForeignJob | { readonly known: true };

/** What an import has done, or would do. */
export interface ImportReport {
  readonly system: string;
  readonly table: string;
  readonly isDryRun: boolean;
  /** Nothing was taken over, because of the bad ones. */
  readonly isRefused: boolean;
  /** How many jobs were taken over, by their states here. */
  readonly imported: Readonly<Partial<Record<JobState, number>>>;
  /** What those of them are called that have not ended. */
  readonly names: readonly string[];
  /** How many an earlier import had taken over. */
  readonly known: number;
  /** How many were left out because they have ended, or were made for a test only. */
  readonly leftOut: { readonly ended: number; readonly mocked: number };
  readonly bad: readonly BadJob[];
  readonly notes: readonly ImportNote[];
}

/** What somebody should know of some of the jobs. */
export interface ImportNote {
  readonly note: string;
  /** 0: it is about the file as a whole. */
  readonly count: number;
  /** Numbers there of the first of them. */
  readonly ids: readonly string[];
}

/** Gathers what an import does, job by job. */
export interface ReportWriter {
  add(step: ImportStep): void;
  done(): ImportReport;
  /** Nothing is taken over. */
  refused(bad: readonly BadJob[]): ImportReport;
}

const IDS_SHOWN = 10;

interface Note {
  count: number;
  readonly ids: string[];
}

export function startReport(queue: ForeignQueue, isDryRun: boolean): ReportWriter {
  const imported: Partial<Record<JobState, number>> = {};
  const leftOut = { ended: 0, mocked: 0 };
  const bad: BadJob[] = [];
  const notes = new Map<string, Note>(queue.notes.map((note) => [note, { count: 0, ids: [] }]));
  const names = new Set<string>();
  let known = 0;
  return { add, done, refused: (all) => ({ ...done(), isRefused: true, bad: all }) };

  function add(step: ImportStep): void {
    if ('key' in step) addJob(step);
    else if ('leftOut' in step) leftOut[step.leftOut] += 1;
    else if ('problem' in step) bad.push(step);
    else known += 1;
  }

  function addJob(job: GoodJob): void {
    imported[job.state] = (imported[job.state] ?? 0) + 1;
    if (!isEnded(job.state)) names.add(job.name);
    for (const text of job.notes) {
      const about = notes.get(text) ?? { count: 0, ids: [] };
      notes.set(text, about);
      about.count += 1;
      if (about.ids.length < IDS_SHOWN) about.ids.push(job.id);
    }
  }

  function done(): ImportReport {
    const { system, table } = queue;
    const taken = { imported, names: [...names], known, leftOut, bad };
    const noted = [...notes].map(([text, about]) => ({ note: text, ...about }));
    return { system, table, isDryRun, isRefused: false, ...taken, notes: noted };
  }
}
