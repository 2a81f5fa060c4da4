import { closeSync, lstatSync, readSync, type Stats } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { Runner } from '../../settings/settings.ts';
import { UsageError } from '../../system/base/errors.ts';
import { formatBytes } from '../../system/base/format.ts';
import { openPlainFile, replaceFile } from '../../system/base/plain-file.ts';
import { printable } from '../../system/base/text.ts';
import { isFolder } from '../../system/base/values.ts';
import { isServed, type Protection, protectReport } from './protect.ts';
import { makeStaticReport, REPORT_MARK, type ReportPlace } from './report.ts';

interface HtmlRequest extends ReportPlace {
  readonly path: string;
  /** Undefined: as it seems fit. */
  readonly protect: boolean | undefined;
  /** Whether somebody reads what is printed: only then a password can be shown. */
  readonly isSeen: boolean;
}

/** `runner report --html`: the dashboard of this moment as a file. */
export async function writeReport({ path, isSeen, ...request }: HtmlRequest) {
  const file = findReportFile(path);
  const { isWithOutput, protect = isServed(file) } = request;
  const report = await makeStaticReport(request);
  // Before anybody could read it.
  const login = request.protect === true || isSeen ? 'login' : 'deny';
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
  distFolder: string,
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

/** Within its first bytes. */
const MARK_WITHIN = 1024;

/**
 * The file for a report: `index.html` in a folder that is named.
 *
 * @throws {UsageError} where no report may be written: there is no such folder, or what is there is no report
 */
function findReportFile(path: string): string {
  if (/\p{Cc}/u.test(path))
    throw new UsageError(`${JSON.stringify(path)} has a control character in it; choose another name.`);
  const file = isFolder(path) ? join(path, 'index.html') : path;
  if (!isFolder(dirname(file))) throw new UsageError(`There is no folder ${dirname(file)}; make it first.`);
  const there = lstatSync(file, { throwIfNoEntry: false });
  if (there === undefined) return file;
  if (!there.isFile()) throw new UsageError(`${file} is ${describeKind(there)}; name a file for the report.`);
  if (there.size > 0 && !isReport(file)) {
    throw new UsageError(`${file} is not a report of the runner, so it is not replaced; name another file.`);
  }
  return file;
}

/** A report would take the place of what is there: of a link, and not of what it leads to. */
function describeKind(stats: Stats): string {
  if (stats.isSymbolicLink()) return 'a symlink, which a report would replace';
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}

function isReport(file: string): boolean {
  return beginningOf(file, MARK_WITHIN).includes(REPORT_MARK);
}

/** The first bytes of a file. */
function beginningOf(file: string, length: number): string {
  const start = Buffer.alloc(length);
  const fd = openPlainFile(file);
  try {
    return start.toString('latin1', 0, readSync(fd, start));
  } finally {
    closeSync(fd);
  }
}
