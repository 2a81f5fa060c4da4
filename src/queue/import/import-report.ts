import type { JobState } from '../../store/schema.ts';
import { isEnded } from '../job-states.ts';
import type { BadJob, ForeignQueue, ImportedJob } from './imported-job.ts';
import type { Step } from './plan-import.ts';

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

export interface Gathered {
  note(step: Step): void;
  report(): ImportReport;
  refuse(bad: readonly BadJob[]): ImportReport;
}

const IDS_SHOWN = 10;

interface Note {
  count: number;
  readonly ids: string[];
}

export function gatherImport(queue: ForeignQueue, isDryRun: boolean): Gathered {
  const imported: Partial<Record<JobState, number>> = {};
  const leftOut = { ended: 0, mocked: 0 };
  const bad: BadJob[] = [];
  const notes = new Map<string, Note>(queue.notes.map((note) => [note, { count: 0, ids: [] }]));
  const names = new Set<string>();
  let known = 0;
  return { note, report, refuse: (refused) => ({ ...report(), isRefused: true, bad: refused }) };

  function note(step: Step): void {
    if ('job' in step) noteJob(step.job);
    else if ('leftOut' in step) leftOut[step.leftOut] += 1;
    else if ('problem' in step) bad.push(step);
    else known += 1;
  }

  function noteJob(job: ImportedJob): void {
    imported[job.state] = (imported[job.state] ?? 0) + 1;
    if (!isEnded(job.state)) names.add(job.name);
    for (const text of job.notes) {
      const about = notes.get(text) ?? { count: 0, ids: [] };
      notes.set(text, about);
      about.count += 1;
      if (about.ids.length < IDS_SHOWN) about.ids.push(job.id);
    }
  }

  function report(): ImportReport {
    const { system, table } = queue;
    const told = [...notes].map(([text, about]) => ({ note: text, ...about }));
    const taken = { imported, names: [...names], known, leftOut, bad, notes: told };
    return { system, table, isDryRun, isRefused: false, ...taken };
  }
}
