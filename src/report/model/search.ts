import type { Site } from '../../discovery/site.ts';
import type { ListedJob } from '../../queue/api.ts';
import { listJobs, searchJobs } from '../../queue/read/list.ts';
import type { StoreSession } from '../../store/store.ts';
import { parseExactly } from '../../system/base/exact-json.ts';
import { matchGlob } from '../../system/base/glob.ts';
import { field, quoting, record, shown } from '../../system/base/record.ts';
import { isRowNumber } from '../../system/base/values.ts';
import { isPattern, readScriptNames } from '../names.ts';
import { jobStateField } from './jobs.ts';
import { outcomeField } from './runs/run.ts';
import { readRunSummary, selectRunPage } from './runs/run-pages.ts';

const foundRunRecord = record(null, {
  id: shown.integer,
  script: shown.text.like('hourly/clean-tmp'),
  outcome: outcomeField,
  startedAt: shown.instant,
  summary: quoting.orNull.about('One line: why it did not succeed'),
});

const foundJobRecord = record(null, {
  id: shown.integer,
  name: shown.text.like('mail/welcome'),
  state: jobStateField,
  createdAt: shown.date,
});

/** A few of all that a text names, of each kind. */
export const foundRecord = record('Found', {
  scripts: shown.list(field.text),
  runs: shown.list(field.one(foundRunRecord)).about('The newest first'),
  jobs: shown.list(field.one(foundJobRecord)).about('The newest first'),
  more: shown
    .one(record(null, { scripts: shown.flag, runs: shown.flag, jobs: shown.flag }))
    .about('Whether there may be more of each kind: `GET /api/runs` and `GET /api/jobs` take the text as `search`'),
});

/**
 * Finds scripts by name or pattern, runs by number, script or error, and jobs by number, name or data.
 *
 * @param isLate whether the data of jobs has been searched long enough
 */
export async function findAnything(
  site: Pick<Site, 'root' | 'store' | 'nowMs' | 'view' | 'known'>,
  text: string,
  limit: number,
  isLate: () => boolean,
) {
  const { store, nowMs } = site;
  const scripts = (await readScriptNames(site)).filter((name) => fits(text, name));
  const log = await site.view();
  const filter = isPattern(text) ? { scripts } : { search: text };
  const runs = await selectRunPage(log, { ...filter, limit: limit + 1 });
  const { jobs, isCut } = store === null ? noJobs : await findJobs(store, text, { limit: limit + 1, isLate, nowMs });
  const cut = <T>(found: readonly T[]): readonly T[] => found.slice(0, limit);
  const told = await Array.fromAsync(cut(runs), async (run) => ({ ...run, summary: await readRunSummary(log, run) }));
  return {
    scripts: cut(scripts),
    runs: told,
    jobs: cut(jobs),
    more: { scripts: scripts.length > limit, runs: runs.length > limit, jobs: jobs.length > limit || isCut },
  };
}

function fits(text: string, name: string): boolean {
  return isPattern(text) ? matchGlob(text, name) : name.toLowerCase().includes(text.toLowerCase());
}

interface JobsAsked {
  readonly limit: number;
  readonly isLate: () => boolean;
  readonly nowMs: number;
}

interface JobsFound {
  readonly jobs: readonly ListedJob[];
  /** The time was over before the data of all jobs was searched. */
  readonly isCut: boolean;
}

const noJobs: JobsFound = { jobs: [], isCut: false };

/** By a number first, then by name, then by the text in their data. */
async function findJobs(store: StoreSession, text: string, { limit, isLate, nowMs }: JobsAsked): Promise<JobsFound> {
  const list = (asked: object) => listJobs(store, { ...asked, limit }, nowMs, parseExactly);
  const id = isRowNumber(text) ? Number(text) : null;
  const numbered = id === null ? [] : await list({ before: id + 1, after: id - 1 || undefined });
  const named = await list({ pattern: isPattern(text) ? text : `*${text}*` });
  const carrying = isPattern(text) ? null : await searchJobs(store, { text, limit, isLate }, nowMs, parseExactly);
  const all = [...numbered, ...named, ...(carrying?.jobs ?? [])];
  const jobs = [...new Map(all.map((job) => [job.id, job])).values()].slice(0, limit);
  return { jobs, isCut: carrying !== null && carrying.last !== null };
}
