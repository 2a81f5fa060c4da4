import { lstatSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { isServed, protectReport } from '../../dashboard/static/protect.ts';
import { makeStaticReport } from '../../dashboard/static/report.ts';
import { findReportFile } from '../../dashboard/static/write.ts';
import type { Runner } from '../../settings/settings.ts';
import { UsageError } from '../../system/base/errors.ts';
import { replaceFile } from '../../system/base/plain-file.ts';
import type { CommandContext } from '../shared/context.ts';

/** If nothing ran, keep the report for at most this long: its "next pass" and ages are those of its time. */
const FRESH_MS = 15 * 60_000;

/**
 * Writes the dashboard into the file that the settings name, once a call is over.
 *
 * @param hasRun whether anything ran in it; else a report that is fresh stays
 * @returns what people should know: that it could not be written, or that others may read it
 */
export async function writeReportOfPass(
  { distFolder }: CommandContext,
  { root, environment, version, now, settings }: Runner,
  hasRun: boolean,
): Promise<string[]> {
  const { html = '', withOutput, protect } = settings.report;
  const path = resolve(root, (html ?? '').replace(/^~(?=\/)/, homedir()));
  try {
    const file = findReportFile(path);
    if (!hasRun && isFresh(file, now())) return [];
    const site = { root, env: environment, version, now };
    const report = await makeStaticReport({ site, distFolder, isWithOutput: withOutput, isOfPass: true });
    const { warning } = await protectReport({ file, by: protect && isServed(file) ? 'deny' : 'none' });
    replaceFile(file, report.html, 0o644);
    return warning === null ? [] : [`WARNING: ${warning}`];
  } catch (error) {
    return [`The report ${path} of the setting report.html could not be written: ${describe(error)}`];
  }
}

/** Of what the file system says, all but the name of the file that was to take its place, which is another each time. */
function describe(error: unknown): string {
  const { message } = error as Error;
  return error instanceof UsageError ? message : (message.split(', ', 1)[0] ?? message);
}

function isFresh(file: string, nowMs: number): boolean {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  return stats !== undefined && Math.abs(nowMs - stats.mtimeMs) < FRESH_MS;
}
