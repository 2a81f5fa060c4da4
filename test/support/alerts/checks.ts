import { type CheckReport, runChecks } from '../../../src/checks/list.ts';
import type { CheckCode, HealthFinding } from '../../../src/monitor/finding.ts';
import { noteEnd } from '../../../src/queue/settle/settle.ts';
import type { CheckSettings } from '../../../src/settings/settings.ts';
import type { Store } from '../../../src/store/store.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { makeFinishedRun } from '../log/finished-run.ts';
import type { WrittenLog, WrittenRun } from '../log/written-log.ts';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A time of day at which no tier begins: a year ahead, so that all files of a test are old. */
export const NOW = Date.UTC(2027, 10, 3, 14, 5);

interface Looked {
  readonly root: string;
  readonly store: Store;
}

export interface Look {
  readonly checks?: CheckSettings;
  readonly at?: number;
  readonly upMs?: number;
}

/** What all checks, or one of them, say of a log at this instant, on a machine that has been up for long. */
export async function look(
  { root, store }: Looked,
  { checks = {}, at = NOW, upMs = 30 * DAY }: Look,
  ...codes: readonly CheckCode[]
): Promise<CheckReport> {
  const place = { root, states: [stateFolderOf(root)] as const, settings: { checks }, nowMs: at, upMs };
  return await (codes.length === 0 ? runChecks(store, place) : runChecks(store, place, codes));
}

/** What is wrong: without its code and cure, which each has. */
export function wrongOf({ findings }: CheckReport): Pick<HealthFinding, 'status' | 'subject' | 'message'>[] {
  return findings
    .filter(({ status }) => status !== 'ok')
    .map(({ status, subject, message }) => ({ status, subject, message }));
}

/** A run that has ended, with what follows for the incidents of its script. */
export async function addSettledRun(
  { store, addRun }: WrittenLog,
  script: string,
  startedAt: number,
  { left_job: leftJob = null, outcome = 'succeeded', reason = null }: WrittenRun = {},
): Promise<number> {
  const runId = await addRun(script, startedAt, { outcome, reason, ...(leftJob && { left_job: leftJob }) });
  const end = makeFinishedRun({ outcome, reason, finished_at: startedAt });
  await store.transaction((session) => noteEnd(session, { script, startedAt, runId, end, leftJob, at: startedAt }));
  return runId;
}
