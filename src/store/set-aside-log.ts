import { existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { listNames } from '../config/list-names.ts';
import type { StateFolder } from '../config/state-folder.ts';
import { databaseSuffixes } from './database-files.ts';
import type { Connection } from './sqlite/connection.ts';
import { kindOfStoreFailure } from './store-failure.ts';
import { utcStamp } from './utc-stamp.ts';

/** Which files of the log get which names, so that a new one can be made in its place. */
export interface SettingAside {
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly suffixes: readonly string[];
  /** What is done, for people. */
  readonly sentence: string;
}

/** Null: nothing is there that anybody could want to have kept. */
export function planSettingAside(
  { database }: StateFolder,
  reason: string | null,
  at: number,
): SettingAside | null {
  const suffixes = databaseSuffixes.filter((suffix) => existsSync(database + suffix));
  if (reason === null && !suffixes.some((suffix) => isContent(database, suffix))) return null;
  const to = freeName(`${database}.broken-${utcStamp(at)}`);
  return {
    at,
    from: database,
    to,
    suffixes,
    sentence: describe(database, reason, { suffixes, to }),
  };
}

/**
 * Moves the files, the database first: what is met without its database is never taken for that of
 * the new one.
 */
export function setAsideLog(
  { from, to, suffixes }: SettingAside,
  log: Connection | null,
  { output }: StateFolder,
): void {
  if (log !== null) lockIfPossible(log);
  for (const suffix of suffixes) renameIfThere(from + suffix, to + suffix);
  moveKeptOutput(output, `${to}.output`);
}

/** Long outputs, which only its rows name. */
function moveKeptOutput(from: string, to: string): void {
  const kept = listNames(from).filter((name) => name.endsWith('.gz'));
  if (kept.length > 0) mkdirSync(to, { mode: 0o700, recursive: true });
  for (const name of kept) renameSync(join(from, name), join(to, name));
}

/** What a journal without content left behind, or SQLite's index of one. */
export function removeLeftovers({ database }: StateFolder): void {
  for (const suffix of databaseSuffixes.slice(1)) rmSync(database + suffix, { force: true });
}

/** `-shm` is only an index of `-wal`. */
function isContent(database: string, suffix: string): boolean {
  return suffix !== '-shm' && statSync(database + suffix).size > 0;
}

/**
 * A runner may still be able to write to it: what it has acknowledged must be in what is moved. What is
 * too broken for SQLite to lock is too broken for anybody to write to.
 */
function lockIfPossible(connection: Connection): void {
  try {
    connection.exec('begin immediate');
  } catch (error) {
    if (kindOfStoreFailure(error) === 'locked') throw error;
  }
}

/** SQLite itself does away with a journal that it has rolled back. */
function renameIfThere(from: string, to: string): void {
  if (existsSync(from)) renameSync(from, to);
}

function freeName(wanted: string): string {
  const isTaken = (name: string): boolean =>
    databaseSuffixes.some((suffix) => existsSync(name + suffix));
  let name = wanted;
  for (let count = 2; isTaken(name); count += 1) name = `${wanted}-${count}`;
  return name;
}

function describe(
  database: string,
  reason: string | null,
  { suffixes, to }: Pick<SettingAside, 'suffixes' | 'to'>,
): string {
  if (reason === null) {
    const names = suffixes.map((suffix) => database + suffix).join(', ');
    return (
      `${names} lay there without ${database}: set aside as ${to}…, and a new log was begun. ` +
      'If you have moved the log away, put them beside it under its name.'
    );
  }
  return (
    `${database} was damaged (${reason}): set aside as ${to}, with its journal files, and a new log ` +
    `was begun. What can be read of the old one: \`sqlite3 ${to} .recover\`.`
  );
}
