import { findDriver } from '../../store/sqlite/load-driver.ts';
import { type Check, type Finding, note, ok, problem } from './finding.ts';
import { readLibc } from './libc.ts';

/** The version of the C library that the binary of better-sqlite3 is built for. */
const GLIBC_OF_BETTER = 2.34;

export const checkSqlite: Check = {
  name: 'sqlite',
  run: async () => {
    const found = await findDriver().catch(describeNone);
    if ('status' in found) return [found];
    const { driver, reasonAgainstBetter } = found;
    if (reasonAgainstBetter === null) return [ok(driver.name)];
    return [
      note(
        `${driver.name}, as better-sqlite3 cannot be used: ${reasonAgainstBetter}`,
        isLibcOld()
          ? `Nothing needs to be done: it asks for glibc ${GLIBC_OF_BETTER}, and Node’s own driver does the same.`
          : 'Nothing needs to be done: Node’s own driver does the same; `npm install folder-runner` brings the other back.',
      ),
    ];
  },
};

function describeNone(error: Error): Finding {
  return problem(
    `neither better-sqlite3 nor node:sqlite can be loaded, so passes run without a log: ${error.message}`,
    'Install the package again for this Node (`npm install folder-runner`), or use a Node that has `node:sqlite`.',
  );
}

function isLibcOld(): boolean {
  const { glibcVersion } = readLibc();
  if (glibcVersion === null) return false;
  const [major = 0, minor = 0] = glibcVersion.split('.').map(Number);
  return major < 2 || (major === 2 && minor < 34);
}
