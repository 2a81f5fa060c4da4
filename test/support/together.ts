import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { globSync } from 'glob';

const project = join(import.meta.dirname, '../..');

/**
 * What a test does to its process, or has from it, that the next file's tests would notice. Scripts that it starts
 * itself, without the runner between them, are charged with the memory of the process that they are forks of.
 */
const marks =
  /support\/(run-one|handler-place)\.ts|src\/execution\/(script|warm)\/|\bvi\.|\bprocess\.(umask|chdir|on|cpuUsage|resourceUsage)\(|process\.env(\.\w+|\[.*\]) =|delete process\.env/;

const files = globSync('test/**/*.test.ts', { cwd: project }).sort();

/**
 * What the tests' own files do before or after all tests of a file, they do for the first file of a process alone:
 * the next one finds them loaded, and what they made removed.
 */
const hooks = /^(before|after)(All|Each)\(/m;

/** Each gets a process of its own, which takes half a second more. */
export const apart = files.filter((file) => {
  const path = join(project, file);
  if (marks.test(readFileSync(path, 'utf8'))) return true;
  return reaches(path, (each, source) => each !== path && hooks.test(source));
});

/** They share processes. */
export const together = files.filter((file) => !apart.includes(file));

/**
 * What is about jobs, runs and what follows from them, and so holds whatever keeps the log: it runs on each engine.
 * What is about SQLite's file, about other files, processes or texts runs once.
 */
const aboutTheLog = [
  'test/queue/conformance/!(bedrock).test.ts',
  'test/store/{migrations,outcomes,pruning,tables}.test.ts',
];

/** The rest of the queue, and what stands on those: it runs on the engines that `TEST_ENGINES` names. */
const upon = [
  'test/queue/**',
  'test/monitor/**',
  'test/store/hostile-log.test.ts',
  'test/report/{activity,metrics-command,read-*,reading-commands}.test.ts',
  'test/alert/{deliver,incidents}.test.ts',
  'test/commands/{add,claim,job,jobs,pause-queue,repeat,run}.test.ts',
  'test/worker/{lost-claims,queue/lease-heartbeat}.test.ts',
];

const aboutSqlite = [
  // Its word for globs, its plans, its shell's quotes.
  'test/queue/{add-by-sql,claim-order,sqlite-glob}.test.ts',
];

const isAsked = process.env.TEST_ENGINES !== undefined;

export const ofAnyEngine = globSync([...aboutTheLog, 'test/faults/fleet-*.test.ts', ...(isAsked ? upon : [])], {
  cwd: project,
  ignore: aboutSqlite,
})
  .filter((file) => files.includes(file) && reaches(join(project, file), isEngine))
  .sort();

/** Who has no root has no log. */
function isEngine(file: string): boolean {
  return file.endsWith('/support/engines.ts');
}

/** Whether it, or what it takes from the tests' own files, is such a one. */
function reaches(file: string, isOne: (file: string, source: string) => boolean, seen = new Set<string>()): boolean {
  if (seen.has(file) || !existsSync(file)) return false;
  seen.add(file);
  const source = readFileSync(file, 'utf8');
  if (isOne(file, source)) return true;
  const imported = [...source.matchAll(/from '(\.{1,2}\/[^']+)'/g)].map(([, path = '']) => join(dirname(file), path));
  return imported.some((path) => path.startsWith(`${project}/test/`) && reaches(path, isOne, seen));
}
