import type { CheckCode, Finding } from '../../src/monitor/checks/finding.ts';
import { type CheckReport, runChecks } from '../../src/monitor/checks/run-checks.ts';
import type { CheckSettings } from '../../src/settings/settings.ts';
import type { Store } from '../../src/store/contract.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';

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
export function wrongOf({ findings }: CheckReport): Pick<Finding, 'status' | 'subject' | 'message'>[] {
  return findings
    .filter(({ status }) => status !== 'ok')
    .map(({ status, subject, message }) => ({ status, subject, message }));
}
