import { closeSync, ftruncateSync, mkdirSync, openSync, readSync, statSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { ledgerPlaces } from '../../child/contract.ts';
import { linkAnew } from '../../child/files.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { listNames } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { isOwnerDead, nameOwnFile, ownerOf } from '../../system/process/identity.ts';

import { ifPossible, openAll, type RunFiles, removeFolder, restoreFolders, sizeOfOpen } from '../run-files.ts';

let made = 0;

/** The files of a child that serves many runs. Their name tells whose child it is. */
export class WarmFiles {
  readonly name: string;
  readonly temporary: string;
  readonly appendFd: number;
  /** The runner's own descriptor of the output. */
  readonly fd: number;
  readonly #state: StateFolder;
  readonly output: string;
  /** The file in which the child notes the runs that it has begun. */
  readonly ledger: string;
  readonly #ledgerFd: number;
  #size = 0;
  #namedOutput: string | null = null;

  /** @throws the error of the file system */
  constructor(state: StateFolder) {
    made += 1;
    this.#state = state;
    this.name = nameOwnFile(KIND, made);
    this.output = join(state.output, this.name);
    this.temporary = join(state.temporary, this.name);
    this.ledger = join(state.results, this.name);
    restoreFolders([this.output, this.temporary, this.ledger]);
    mkdirSync(this.temporary, { mode: 0o700 });
    [this.#ledgerFd, this.appendFd, this.fd] = this.#open();
    // On a full disk nothing can be revoked; there is no other harm.
    ifPossible(() => writeSync(this.#ledgerFd, Buffer.alloc(ledgerPlaces.end), 0));
  }

  #open(): [ledgerFd: number, appendFd: number, fd: number] {
    const opens = [
      () => openSync(this.ledger, 'wx+', 0o600),
      () => openSync(this.output, 'ax', 0o600),
      () => openSync(this.output, 'r+'),
    ];
    try {
      return openAll(opens) as [number, number, number];
    } catch (error) {
      removeWarmFiles(this.#state, this.name);
      throw error;
    }
  }

  /** Whether something was written since the last run ended: an earlier run is still active. */
  hasStrayOutput(): boolean {
    return (sizeOfOpen(this.fd) ?? this.#size) !== this.#size;
  }

  /** Call it before each run but the first. */
  begin(): void {
    if (this.#size > 0) ftruncateSync(this.fd);
    this.#size = 0;
    this.#namedOutput = null;
  }

  /** Whether the output also has this run's own name. */
  isNamedFor({ output }: Pick<RunFiles, 'output'>): boolean {
    return this.#namedOutput === output;
  }

  /** Gives the output a second name, by which it is found if the runner dies. */
  nameFor({ output }: RunFiles): void {
    this.#namedOutput = output;
    // After a log was quarantined, ids start anew: a file that an older run left here is not this run's.
    linkAnew(this.output, output);
  }

  /** Removes the second name, because the run that has it did not begin. */
  unname(): void {
    const name = this.#namedOutput;
    this.#namedOutput = null;
    if (name !== null) ifPossible(() => unlinkSync(name));
  }

  /** How many bytes the run has written; later output is not its own. */
  end(): number {
    this.#size = sizeOfOpen(this.fd) ?? this.#size;
    return this.#size;
  }

  /** The number of the last job that the child has begun; null: unknown. */
  readBegun(): number | null {
    const number = Buffer.alloc(8);
    try {
      const read = readSync(this.#ledgerFd, number, 0, 8, ledgerPlaces.begun);
      return read < 8 ? null : number.readDoubleLE(0);
    } catch {
      return null;
    }
  }

  /** Prevents the child from beginning any job up to this number that it has not begun yet. False: that failed. */
  revoke(upTo: number): boolean {
    const number = Buffer.alloc(8);
    number.writeDoubleLE(upTo);
    try {
      return writeSync(this.#ledgerFd, number, 0, 8, ledgerPlaces.revoked) === 8;
    } catch {
      return false;
    }
  }

  remove(): void {
    removeWarmFiles(this.#state, this.name);
    for (const fd of [this.#ledgerFd, this.appendFd, this.fd]) ifPossible(() => closeSync(fd));
  }
}

const KIND = 'warm';

/** A run that a child for many runs has begun. */
export interface LedgerEntry {
  /** The name of the child's files. */
  readonly child: string;
  /** Start of the child's last run; earlier ones began a moment before. Epoch milliseconds. */
  readonly startedAt: number;
}

/** Whether the files of this name belong to a child of a runner that has died here. */
export function isLeftByRunner(name: string): boolean {
  return isOwnerDead(name, KIND);
}

/** The entries of all children, by the keys of the runs whose ends may be missing in the log. */
export function readLedgers({ results }: StateFolder): ReadonlyMap<string, LedgerEntry> {
  const ledgers = new Map<string, LedgerEntry>();
  for (const child of listNames(results).filter((each) => ownerOf(each, KIND) !== null)) {
    const path = join(results, child);
    ifPossible(() => {
      const keys = readPlainFile(path, 'latin1').slice(ledgerPlaces.keys, ledgerPlaces.begun);
      const startedAt = Math.round(statSync(path).mtimeMs);
      for (const key of listRuns(keys)) ledgers.set(key, { child, startedAt });
    });
  }
  return ledgers;
}

/** `7.12-14 7.30` is four runs. Others may write there and name any number, so ranges are limited. */
function listRuns(keys: string): readonly string[] {
  return (keys.match(/[^\s\0]+/g) ?? []).flatMap((range) => {
    const [, worker, first, last] = /^(\d+\.)(\d+)-(\d+)$/.exec(range) ?? [];
    if (worker === undefined) return range;
    const count = Math.min(Number(last) - Number(first) + 1, MOST_IN_RANGE);
    return Array.from({ length: count }, (_, index) => `${worker}${Number(last) - index}`);
  });
}

const MOST_IN_RANGE = 1_000;

export function removeWarmFiles(state: StateFolder, name: string): void {
  ifPossible(() => unlinkSync(join(state.results, name)));
  ifPossible(() => unlinkSync(join(state.output, name)));
  ifPossible(() => removeFolder(join(state.temporary, name)));
}
