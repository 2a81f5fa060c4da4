import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { DAY_MS, isInstant } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { checkLiveness, identifyProcess, type ProcessIdentity } from '../../system/process/identity.ts';

/** A process that is no worker of the runner and waits for a job. */
export interface Waiter {
  readonly host: string;
  readonly pid: number;
  /** Globs over the wanted names. */
  readonly patterns: readonly string[];
  readonly sinceMs: number;
  /** When the wait ends by itself. */
  readonly untilMs: number;
}

type Wait = Pick<Waiter, 'patterns' | 'sinceMs' | 'untilMs'>;

/**
 * Shows a wait to others by a separate file: in the log it would be a commit, which wakes all other waiting callers.
 * Files of dead processes are removed. If no file can be made, the wait goes on unseen.
 *
 * @returns a function to call at the end of the wait
 */
export function announceWait(state: StateFolder, wait: Wait): () => void {
  const path = join(folderOf(state), crypto.randomUUID());
  const noted: Noted = { ...identifyProcess(process.pid), ...wait };
  try {
    mkdirSync(folderOf(state), { recursive: true, mode: 0o700 });
    removeDeadWaiters(state);
    writeFileSync(path, JSON.stringify(noted), { mode: 0o600, flag: 'wx' });
  } catch {
    return () => {};
  }
  return () => remove(path);
}

/** The present waits, the longest first. */
export function listWaiters(state: StateFolder, nowMs: number): readonly Waiter[] {
  const waiting = listNotes(state).flatMap(({ noted }) => (noted !== null && !isOver(noted, nowMs) ? noted : []));
  return waiting
    .map(({ host, pid, patterns, sinceMs, untilMs }) => ({ host, pid, patterns, sinceMs, untilMs }))
    .toSorted((one, other) => one.sinceMs - other.sinceMs);
}

export function removeDeadWaiters(state: StateFolder): void {
  for (const { path, noted } of listNotes(state)) {
    if (noted === null ? isOld(path) : isOver(noted, Date.now() - DAY_MS)) remove(path);
  }
}

const folderOf = ({ cache }: StateFolder): string => join(cache, 'waiting');

/** Most files to read: more would take long, and a host never has that many such processes. */
const MOST_NOTES = 1_000;

type Noted = ProcessIdentity & Wait;

/** A null note is being written, or is not a waiter's. */
function listNotes(state: StateFolder): { readonly path: string; readonly noted: Noted | null }[] {
  const paths = listNotePaths(folderOf(state));
  return paths.slice(0, MOST_NOTES).map((path) => ({ path, noted: readNote(path) }));
}

/** Empty if the folder may not be read: it is another user's. */
function listNotePaths(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

function readNote(path: string): Noted | null {
  try {
    const noted = JSON.parse(readPlainFile(path)) as Partial<Noted> | null;
    const { host, pid, patterns, sinceMs, untilMs } = noted ?? {};
    const isWait = Array.isArray(patterns) && patterns.every((each) => typeof each === 'string');
    const isWhole = isWait && isInstant(sinceMs) && isInstant(untilMs) && Number.isInteger(pid);
    return isWhole && typeof host === 'string' ? (noted as Noted) : null;
  } catch {
    return null;
  }
}

/** On another host, only the end of the wait is known. */
function isOver(noted: Noted, atMs: number): boolean {
  const liveness = checkLiveness(noted);
  return liveness === 'dead' || (liveness === 'on-another-host' && noted.untilMs < atMs);
}

/** Writing a note takes a moment, so a new one is left alone. */
function isOld(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats !== undefined && stats.mtimeMs < Date.now() - DAY_MS;
}

/** A note that cannot be removed belongs to a dead process, which nobody counts. */
function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {}
}
