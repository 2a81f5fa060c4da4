import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { globSync } from 'glob';
import { lock } from 'proper-lockfile';

const project = import.meta.dirname;
const dist = join(project, 'dist');
const workshop = join(project, 'node_modules/.cache/folder-runner');
/** Lies in `dist/`, so that a build by other means takes it away. */
const stamp = join(dist, '.built-from');
const OLD_CHUNKS_STAY_MS = 10 * 60_000;
const WAIT_TWO_MINUTES = { retries: 1200, factor: 1, minTimeout: 100, maxTimeout: 100 };

/**
 * Tests drive the built command, as a user's crontab does, so it is built first: once for each state
 * of the sources, and without `dist/` ever being incomplete for another test run that uses it.
 */
export async function setup(): Promise<void> {
  await buildUnless((sources) => readStamp() === sources);
}

/** `npm run build` builds anew, whatever `dist/` holds; with `--if-changed`, only if the sources have changed. */
if (process.argv[1] === import.meta.filename) {
  await (process.argv.includes('--if-changed') ? setup() : buildUnless(() => false));
}

async function buildUnless(isBuilt: (sources: string) => boolean): Promise<void> {
  mkdirSync(workshop, { recursive: true });
  const unlock = await lock(workshop, { stale: 30_000, retries: WAIT_TWO_MINUTES });
  try {
    const sources = hashSources();
    if (!isBuilt(sources)) await build(sources);
  } finally {
    await unlock();
  }
}

function hashSources(): string {
  const hash = createHash('sha256');
  const files = globSync(
    ['src/**', 'build.ts', 'tsdown.config.ts', 'third-party.ts', 'tsconfig.json', 'package*.json'],
    {
      cwd: project,
      nodir: true,
      // Made of the others.
      ignore: 'src/dashboard/client/paths.ts',
    },
  );
  for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(join(project, file)));
  return hash.digest('hex');
}

function readStamp(): string | null {
  try {
    return readFileSync(stamp, 'utf8');
  } catch {
    return null;
  }
}

async function build(sources: string): Promise<void> {
  const fresh = join(workshop, 'dist');
  // Of a build that failed on its way.
  rmSync(fresh, { recursive: true, force: true });
  // A test run that builds has another NODE_ENV, with which the page would be another, larger one.
  const env = { ...process.env, NODE_ENV: 'production' };
  const run = (tool: string, ...args: string[]) =>
    promisify(execFile)(join(project, 'node_modules/.bin', tool), [...args, '--logLevel', 'error'], {
      cwd: project,
      env,
    });
  await promisify(execFile)(process.execPath, [join(project, 'src/dashboard/client/generate.ts')]);
  await run('tsdown', '--out-dir', fresh);
  await run('vite', 'build', '--config', 'src/dashboard/page/vite.config.ts', '--outDir', fresh);
  await packPage(join(fresh, 'dashboard.html'));
  rmSync(stamp, { force: true });
  replaceFiles(fresh);
  await writeFile(stamp, sources);
}

/** As browsers get it: to compress it takes a tenth of a server's start. */
async function packPage(page: string): Promise<void> {
  await writeFile(`${page}.gz`, gzipSync(readFileSync(page), { level: 9 }));
  rmSync(page);
}

/** The entries come last: what they load lazily must be there before them. */
function replaceFiles(fresh: string): void {
  mkdirSync(dist, { recursive: true });
  const files = readdirSync(fresh);
  const entries = ['cli.cjs', 'bin.cjs'].filter((entry) => files.includes(entry));
  const chunks = files.filter((file) => !entries.includes(file));
  for (const file of [...chunks, ...entries]) renameSync(join(fresh, file), join(dist, file));
  removeOldChunks(new Set(files));
}

/** Not at once: a command that is running may still load them. */
function removeOldChunks(current: ReadonlySet<string>): void {
  for (const file of readdirSync(dist).filter((name) => !current.has(name))) {
    const path = join(dist, file);
    if (Date.now() - statSync(path).mtimeMs > OLD_CHUNKS_STAY_MS) rmSync(path);
  }
}
