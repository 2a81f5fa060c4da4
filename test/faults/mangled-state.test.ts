import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  type Stats,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fallbackStateFoldersOf } from '../../src/system/place/fallback.ts';
import { type Ended, startCommand } from '../support/command.ts';
import { findViolations, HOLD, nodeScript, readEvidence, shellScript } from '../support/faults/invariants.ts';
import { seed } from '../support/faults/rounds.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { playRounds } from './mangled.ts';

/*
 * Whatever somebody makes of the state folder, between passes and during one: every script runs, once in each pass,
 * and what is wrong is told in sentences. Once it is put right, the log has all.
 */

const files = {
  // Whoever changes anything during a pass does so while the first script runs.
  'jobs/hourly/a.sh': shellScript(),
  'jobs/hourly/b.sh': shellScript({ exit: '3' }),
  'jobs/hourly/c.mjs': nodeScript(),
};
const scripts = ['a', 'b', 'c'].map((name) => `hourly/${name}`);

/** Root does it to another user, whom modes and owners can shut out. */
const isRoot = process.getuid?.() === 0;
const USER = 65_534;
const STRANGER = 4_711;
const give = (path: string, user = USER): void => {
  if (isRoot) execFileSync('chown', ['-R', '-h', `${user}:${user}`, path]);
};

const folders = ['locks', 'output', 'results', 'tmp', 'spool', 'cache'];
const ofDatabase = ['activity.db', 'activity.db-wal', 'activity.db-shm', 'activity.db-journal'];
/** The second pass is worker 2. */
const ofRuns = ['output/2.2.log', 'output/2.2.log.gz', 'results/2.3.json', 'tmp/2.2', 'locks/hourly.lock/1.json'];
const others = ['reserve', 'activity.lock', 'activity.suspect', 'activity.new', 'locks/hourly.lock', '.gitignore'];
const places = [
  '.runner',
  ...[...folders, ...ofDatabase, ...ofRuns, ...others, 'spool/1-1-ab.jsonl'].map((name) => `.runner/${name}`),
  ...['', '/spool', '/locks', '/tmp'].map((name) => `FALLBACK${name}`),
];

const kinds = ['gone', 'file', 'folder', 'full folder', 'pipe', 'socket', 'dangling', 'circle', 'link', 'mode', 'mode'];
const ofRoot = ['owner', 'owner', 'device'];

/** What is done to one place. */
interface Change {
  readonly place: string;
  readonly kind: string;
  readonly mode: number;
  readonly owner: number;
}

const change: fc.Arbitrary<Change> = fc.record({
  place: fc.constantFrom(...places, ...folders.map((name) => `.runner/${name}`)),
  kind: fc.constantFrom(...kinds, ...(isRoot ? ofRoot : [])),
  mode: fc.constantFrom(0, 0o100, 0o400, 0o500, 0o600, 0o700, 0o755),
  owner: fc.constantFrom(0, STRANGER),
});

interface Story {
  readonly before: readonly Change[];
  readonly during: readonly Change[];
}

const at = (place: string, kind: string, mode = 0, owner = STRANGER): Change => ({ place, kind, mode, owner });

/** What was found by chance once. */
const wellTried: readonly Story[] = [
  {
    before: [at('.runner/locks', 'dangling'), at('.runner/spool/1-1-ab.jsonl', 'link')],
    during: [at('.runner/spool', 'mode', 0o400), at('.runner/activity.db-wal', 'socket')],
  },
  {
    before: [at('.runner/tmp/2.2', 'file'), at('.runner/results', 'circle')],
    during: [at('.runner/locks', 'file')],
  },
];

/** A root that was put somewhere, and what was put aside there. */
class Site {
  readonly path: string;
  readonly #fallback: string;
  readonly #undo: (() => void)[] = [];

  constructor(first: string) {
    this.path = mkdtempSync(join(tmpdir(), 'runner-'));
    cpSync(first, this.path, { recursive: true });
    const [fallback] = fallbackStateFoldersOf(this.path);
    const name = basename(fallback?.path ?? '').replace(/\d+/, String(isRoot ? USER : process.getuid?.()));
    this.#fallback = join(this.path, 'temporary', name);
    give(this.path);
  }

  mangle(changes: readonly Change[]): void {
    for (const each of changes) this.#mangle(each);
  }

  #mangle({ place: name, kind, mode, owner }: Change): void {
    const place = name.startsWith('FALLBACK') ? this.#fallback + name.slice('FALLBACK'.length) : join(this.path, name);
    // What cannot be done, nobody can have done.
    if (look(dirname(place))?.isDirectory() !== true) return;
    const stats = look(place);
    if (kind !== 'mode' && kind !== 'owner') {
      this.#replace(place, stats, kind);
    } else if (stats !== undefined && !stats.isSymbolicLink()) {
      this.#undo.push(() => restore(place, stats));
      if (kind === 'mode') chmodSync(place, mode);
      // A state folder of another user's is refused, whatever is in it.
      else chownSync(place, name === '.runner' ? 0 : owner, 0);
    }
  }

  #replace(place: string, stats: Stats | undefined, kind: string): void {
    const aside = join(this.path, 'aside', String(this.#undo.length));
    mkdirSync(dirname(aside), { recursive: true });
    // Who is not root cannot move a folder that is closed to writing.
    if (stats?.isDirectory() && !isRoot && (stats.mode & 0o200) === 0) return;
    if (stats !== undefined) renameSync(place, aside);
    make(kind, place, join(this.path, 'outside'));
    const made = look(place);
    if (made !== undefined) give(place, place === this.#fallback ? STRANGER : USER);
    this.#undo.push(() => {
      if (made !== undefined && look(place)?.ino === made.ino) rmSync(place, { recursive: true });
      if (stats !== undefined) putBack(aside, place);
    });
  }

  heal(): void {
    for (const undo of this.#undo.reverse()) undo();
    rmSync(join(this.path, 'aside'), { recursive: true, force: true });
    // Put back with its folder: of a run that has ended since, or made here.
    for (const folder of ['output', 'results', 'tmp'].map((name) => join(this.path, '.runner', name))) {
      for (const name of existsSync(folder) ? readdirSync(folder) : []) {
        if (/^(?:\d+\.\d+(?:\.|$)|theirs$)/.test(name)) rmSync(join(folder, name), { recursive: true });
      }
    }
  }

  async pass(during: readonly Change[]): Promise<void> {
    const hold = join(this.path, HOLD);
    const earlier = readEvidence(this.path).length;
    if (during.length > 0) writeFileSync(hold, '');
    const running = startPass(this.path);
    if (during.length > 0) {
      const runs = until('the first script runs', () => readEvidence(this.path).length > earlier);
      await Promise.race([runs, running.then(refuseEnd)]);
      this.mangle(during);
      rmSync(hold);
    }
    const { status, stderr } = await running;
    expect([status, stderr]).toEqual([1, expect.not.stringMatching(/^\s+at /m)]);
    const ran = readEvidence(this.path).filter(({ exitCode }, at) => at >= earlier && exitCode !== null);
    expect(ran.map(({ script }) => script).sort(), stderr).toEqual(scripts);
  }

  remove(): void {
    // A story that has failed leaves folders closed.
    execFileSync('chmod', ['-R', 'u+rwX', this.path]);
    rmSync(this.path, { recursive: true, force: true, maxRetries: 3 });
  }
}

function refuseEnd({ status, stderr }: Ended): never {
  throw new Error(`The pass ended with ${status} before a script ran: ${stderr}`);
}

function look(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch {
    return undefined;
  }
}

function make(kind: string, place: string, outside: string): void {
  switch (kind) {
    case 'file':
      writeFileSync(place, 'theirs');
      break;
    case 'folder':
    case 'full folder':
      mkdirSync(place);
      if (kind === 'full folder') writeFileSync(join(place, 'theirs'), '');
      break;
    case 'pipe':
      execFileSync('mkfifo', ['-m', '600', place]);
      break;
    case 'socket':
      createServer().listen(place).close();
      break;
    case 'dangling':
      symlinkSync(join(outside, 'nowhere'), place);
      break;
    case 'circle':
      symlinkSync(basename(place), place);
      break;
    case 'link':
      symlinkSync(outside, place);
      break;
    case 'device':
      execFileSync('mknod', ['-m', '600', place, 'c', '1', '5']);
  }
}

function restore(place: string, { ino, mode, uid, gid }: Stats): void {
  if (look(place)?.ino !== ino) return;
  chmodSync(place, mode & 0o7777);
  if (isRoot) chownSync(place, uid, gid);
}

/** Beside what was made there meanwhile. */
function putBack(aside: string, place: string): void {
  if (!existsSync(dirname(place))) return;
  const stats = look(place);
  if (stats === undefined) renameSync(aside, place);
  else if (stats.isDirectory() && lstatSync(aside).isDirectory()) {
    for (const name of readdirSync(aside)) putBack(join(aside, name), join(place, name));
  }
}

const LONGEST_MS = 40_000;

async function startPass(root: string): Promise<Ended> {
  const env = { HOME: root, PATH: '/usr/bin:/bin', TZ: 'UTC', TMPDIR: join(root, 'temporary') };
  const place = { cwd: '/', env, ...(isRoot && { uid: USER, gid: USER }) };
  const running = startCommand(['--root', root, 'hourly'], place);
  const timer = setTimeout(() => running.kill('SIGKILL'), LONGEST_MS);
  return await running.ended.finally(() => clearTimeout(timer));
}

/** What the log cannot know any more: it was taken away itself, or what was recorded beside it. */
const isLost = ({ place }: Change): boolean => /^\.runner$|activity\.(db|new)|spool|FALLBACK$/.test(place);

async function play(first: string, { before, during }: Story): Promise<void> {
  const site = new Site(first);
  try {
    site.mangle(before);
    await site.pass(during);
    site.heal();
    await site.pass([]);
    const isPruned = [...before, ...during].some(isLost);
    expect(findViolations(site.path, { isPruned }).join('\n')).toBe('');
  } finally {
    site.remove();
  }
}

test(`whatever is done to the state folder, every script runs once in each pass (FAULT_SEED=${seed})`, async () => {
  const first = makeTemporaryRoot(files);
  for (const name of ['temporary', 'outside']) mkdirSync(join(first, name), { mode: 0o700 });
  give(first);
  await startPass(first);
  const some = fc.array(change, { minLength: 1, maxLength: 3 });
  const story = fc.record({ before: fc.option(some, { nil: [] }), during: some });
  await playRounds(120, story, (each) => play(first, each), wellTried);
}, 1_800_000);
