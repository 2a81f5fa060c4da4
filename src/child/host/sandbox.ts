import {
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type HandlerEnd, ledgerPlaces, type ProbeResult } from '../contract.ts';

type Exit = typeof process.exit;

/**
 * Has `process.exit()` throw where the caller has no say any more.
 *
 * @returns the one that always ends the process
 */
export function guardExit(mayExit: () => boolean): Exit {
  const exit: Exit = process.exit.bind(process);
  process.exit = (code) => {
    if (mayExit()) exit(code);
    throw new Error(`process.exit(${code ?? ''}) was called`);
  };
  // Who listens to the process's end may call it again.
  process.prependListener('exit', () => {
    process.exit = exit;
  });
  return exit;
}

/** Removes what is in a folder, as far as it can be; where it is a folder no more, it is made anew. */
export function emptyFolder(path: string): void {
  try {
    for (const name of readdirSync(path)) {
      rmSync(join(path, name), { recursive: true, force: true });
    }
  } catch {
    makeAnew(path);
  }
}

function makeAnew(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
    restoreParent(path);
    mkdirSync(path, { mode: 0o700 });
  } catch {}
}

/** No more than that: where all of a state folder is gone, none is to be made. */
function restoreParent(path: string): void {
  try {
    mkdirSync(dirname(path), { mode: 0o700 });
  } catch {}
}

/** What one job uses of a process that serves many. */
export interface Meter {
  measure(end: HandlerEnd): {
    readonly result: ProbeResult;
    readonly durationMs: number;
    readonly rssBytes: number;
  };
}

/** As the last job left them. */
let lastRssBytes: number | null = null;
let lastPeakBytes: number | null = null;

export function startMeter(): Meter {
  const startedAt = performance.now();
  lastRssBytes ??= readRssBytes();
  lastPeakBytes ??= process.resourceUsage().maxRSS * 1024;
  const [rssBefore, peakBefore] = [lastRssBytes, lastPeakBytes];
  // All that is used would be asked for twice as long.
  const before = process.cpuUsage();
  return {
    measure: (end) => {
      const durationMs = performance.now() - startedAt;
      const after = process.resourceUsage();
      const rssBytes = readRssBytes();
      lastRssBytes = rssBytes;
      lastPeakBytes = after.maxRSS * 1024;
      const result = {
        ...end,
        userCpuMs: (after.userCPUTime - before.user) / 1000,
        systemCpuMs: (after.systemCPUTime - before.system) / 1000,
        maxRssBytes: peakBytes(peakBefore, lastPeakBytes, rssBefore, rssBytes),
        rssDeltaBytes: rssBytes - rssBefore,
      };
      return { result, durationMs, rssBytes };
    },
  };
}

/** The process's peak is this job's only if this job has raised it. */
function peakBytes(peakBefore: number, peakAfter: number, before: number, after: number): number {
  return peakAfter > peakBefore ? peakAfter : Math.max(before, after);
}

const PAGE_BYTES = 4096;
const buffer = Buffer.alloc(128);
let fd: number | null = null;
let isStatmRight: boolean | null = null;

/** Resident memory of this process: 2 µs, where asking Node costs 10. */
function readRssBytes(): number {
  if (isStatmRight === false) return process.memoryUsage.rss();
  const rssBytes = readStatm();
  isStatmRight ??= isAbout(rssBytes, process.memoryUsage.rss());
  return isStatmRight && rssBytes !== null ? rssBytes : process.memoryUsage.rss();
}

/** Null where there is none. */
function readStatm(): number | null {
  try {
    fd ??= openSync('/proc/self/statm', 'r');
    const [, pages] = buffer.toString('latin1', 0, readSync(fd, buffer, 0, 128, 0)).split(' ', 2);
    return Number(pages) * PAGE_BYTES;
  } catch {
    return null;
  }
}

/** Pages have another size on some machines, and `/proc` can be another container's. */
function isAbout(one: number | null, other: number): boolean {
  return one !== null && one > other / 2 && one < other * 2;
}

/** Gives a file a second name, whatever had it before. Where that cannot be, it has just the first. */
export function linkAnew(path: string, name: string): void {
  try {
    linkSync(path, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') replaceLink(path, name);
  }
}

function replaceLink(path: string, name: string): void {
  try {
    unlinkSync(name);
    linkSync(path, name);
  } catch {}
}

/** Where a child writes down which run it begins, so that this is known should it and its runner die. */
export class Ledger {
  readonly #entry = Buffer.alloc(ledgerPlaces.revoked);
  readonly #revoked = Buffer.alloc(ledgerPlaces.end - ledgerPlaces.revoked);
  #fd: number | null = null;

  constructor(path: string) {
    try {
      this.#fd = openSync(path, 'r+');
    } catch {
      // It was removed: what has begun is told by what it leaves behind besides.
    }
  }

  /**
   * To be called before a run begins. Whoever revokes it writes first and looks then: one of both sees the
   * other, so that what was given back to others never begins here.
   *
   * @param keys of runs whose ends may not be in the log, and of this one
   * @returns whether it may begin; what could not be written down may, if it is the first that was sent
   */
  begin(keys: readonly string[], number: number, isFirst: boolean): boolean {
    if (!this.#write(keys, number)) return isFirst;
    if (this.#readRevoked() < number) return true;
    this.#write(keys.slice(0, -1), number - 1);
    return false;
  }

  #write(keys: readonly string[], number: number): boolean {
    if (this.#fd === null) return false;
    this.#entry.fill(' ', 0, ledgerPlaces.begun).write(listKeys(keys), 'latin1');
    this.#entry.writeDoubleLE(number, ledgerPlaces.begun);
    try {
      writeSync(this.#fd, this.#entry, 0, ledgerPlaces.revoked, 0);
      return true;
    } catch {
      // On a full disk: as above.
      return false;
    }
  }

  #readRevoked(): number {
    const length = this.#revoked.length;
    const read = readSync(this.#fd as number, this.#revoked, 0, length, ledgerPlaces.revoked);
    return read < length ? 0 : this.#revoked.readDoubleLE(0);
  }
}

/** `7.12-27 7.30`, the last ones of them if there is no room for all. */
function listKeys(keys: readonly string[]): string {
  let list = '';
  let end = keys.length;
  while (end > 0) {
    let start = end - 1;
    while (start > 0 && isNext(keys[start - 1] as string, keys[start] as string)) start -= 1;
    const first = keys[start] as string;
    const last = keys[end - 1] as string;
    const range = start === end - 1 ? last : `${first}-${last.slice(last.indexOf('.') + 1)}`;
    const longer = list === '' ? range : `${range} ${list}`;
    if (longer.length > ledgerPlaces.begun) return list === '' ? last : list;
    list = longer;
    end = start;
  }
  return list;
}

/** Whether two keys are those of claims that one worker has made one after the other. */
function isNext(before: string, after: string): boolean {
  const dot = before.indexOf('.');
  if (dot === -1 || after.slice(0, dot + 1) !== before.slice(0, dot + 1)) return false;
  return Number(after.slice(dot + 1)) === Number(before.slice(dot + 1)) + 1;
}
