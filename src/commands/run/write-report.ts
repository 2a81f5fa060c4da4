import { lstatSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { isServed, type Protection, protectReport } from '../../dashboard/static/protect.ts';
import { makeStaticReport } from '../../dashboard/static/report.ts';
import { findReportFile } from '../../dashboard/static/write.ts';
import type { Runner } from '../../settings/settings.ts';
import { UsageError } from '../../system/base/errors.ts';
import { formatBytes } from '../../system/base/format.ts';
import { replaceFile } from '../../system/base/plain-file.ts';
import { printable } from '../../system/base/text.ts';
import type { CommandContext } from '../shared/context.ts';

interface HtmlRequest {
  readonly root: string;
  /** As it was given: from the current folder. */
  readonly path: string;
  readonly isWithOutput: boolean;
  /** Undefined: as it seems fit. */
  readonly protect: boolean | undefined;
}

/** `runner report --html`: the dashboard of this moment as a file. */
export async function writeReport(context: CommandContext, request: HtmlRequest) {
  const { cwd, env, version, now, distFolder } = context;
  const file = findReportFile(resolve(cwd, request.path));
  const { root, isWithOutput, protect = isServed(file) } = request;
  const report = await makeStaticReport({ site: { root, env, version, now }, distFolder, isWithOutput });
  // Before anybody could read it.
  const login = request.protect === true || context.stdout.isTTY ? 'login' : 'deny';
  const protection = await protectReport({ file, by: protect ? login : 'none' });
  replaceFile(file, report.html, 0o644);
  const { runsSince } = report;
  const size = formatBytes(Buffer.byteLength(report.html));
  const what = isWithOutput ? 'with what scripts have printed' : 'without output, errors and data of jobs';
  const older = runsSince === null ? '' : `; runs before ${runsSince} were left out for its size`;
  const text = `${printable(file)} ${size}, ${what}${older}\n${describeLogin(protection)}`;
  return { text, warning: protection.warning };
}

function describeLogin({ done, login }: Protection): string {
  const lines = [
    ...(done === null ? [] : [printable(done)]),
    ...(login === null ? [] : [`user ${login.user}, password ${login.password} (shown only now)`]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

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

/** The file system's message without the name of the temporary file, which differs each time. */
function describe(error: unknown): string {
  const { message } = error as Error;
  return error instanceof UsageError ? message : (message.split(', ', 1)[0] ?? message);
}

function isFresh(file: string, nowMs: number): boolean {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  return stats !== undefined && Math.abs(nowMs - stats.mtimeMs) < FRESH_MS;
}
