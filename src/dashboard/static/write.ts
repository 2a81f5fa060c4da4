import { closeSync, lstatSync, readSync, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import { UsageError } from '../../system/base/errors.ts';
import { openPlainFile } from '../../system/base/plain-file.ts';
import { isFolder } from '../../system/base/values.ts';
import { REPORT_MARK } from './report.ts';

/** Within its first bytes. */
const MARK_WITHIN = 1024;

/**
 * The file for a report: `index.html` in a folder that is named.
 *
 * @throws {UsageError} where no report may be written: there is no such folder, or what is there is no report
 */
export function findReportFile(path: string): string {
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

/** What a file begins with. */
function beginningOf(file: string, length: number): string {
  const start = Buffer.alloc(length);
  const fd = openPlainFile(file);
  try {
    return start.toString('latin1', 0, readSync(fd, start));
  } finally {
    closeSync(fd);
  }
}
