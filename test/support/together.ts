import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { globSync } from 'glob';

const project = join(import.meta.dirname, '../..');

/** What a test does to its process, or has from it, that the next file's tests would notice. */
const marks =
  /from 'node:(child_process|worker_threads)'|src\/execution\/(script|warm)\/|\bvi\.|\bprocess\.(umask|chdir|kill|on|cpuUsage|resourceUsage)\(|process\.env\.\w+ =|delete process\.env/;

const files = globSync('test/**/*.test.ts', { cwd: project }).sort();

/**
 * Files whose tests start no process: they share a worker, as each new one takes half a second. It grows with them,
 * and a fork of it is charged to whatever it starts.
 */
export const together = files.filter((file) => !needsOwnProcess(join(project, file)));

/** Each gets a process of its own. */
export const apart = files.filter((file) => !together.includes(file));

/** What holds whatever keeps the log: they run on each engine. Who speaks of one is about that one. */
export const ofAnyEngine = files.filter(
  (file) => /^test\/(faults|queue)\//.test(file) && !/sqlite/i.test(readFileSync(join(project, file), 'utf8')),
);

function needsOwnProcess(file: string, seen = new Set<string>()): boolean {
  if (seen.has(file) || !existsSync(file)) return false;
  seen.add(file);
  const source = readFileSync(file, 'utf8');
  if (marks.test(source)) return true;
  const imported = [...source.matchAll(/from '(\.{1,2}\/[^']+)'/g)].map(([, path = '']) => join(dirname(file), path));
  return imported.some((path) => path.startsWith(`${project}/test/`) && needsOwnProcess(path, seen));
}
