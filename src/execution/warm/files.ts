import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  unlinkSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { listNames } from '../../base/values.ts';
import { LEDGER_BYTES } from '../../child/contract.ts';
import { linkAnew } from '../../child/host/sandbox.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import { type ProcessIdentity, readStartTicks } from '../../process/identity.ts';
import { ifPossible, type RunFiles, removeTree, restoreFolders } from '../run-files.ts';

let made = 0;

/** Files of a child that serves many runs, under names that tell whose child it is. */
export class WarmFiles {
  readonly name: string;
  readonly temporary: string;
  readonly appendFd: number;
  /** The runner's own descriptor of the output. */
  readonly fd: number;
  readonly #state: StateFolder;
  readonly output: string;
  /** Where the child writes down which run it has begun last. */
  readonly ledger: string;
  #size = 0;
  #isNamed = false;

  /** @throws what the file system has against it */
  constructor(state: StateFolder) {
    made += 1;
    this.#state = state;
    this.name = nameWarmChild(made);
    this.output = join(state.output, this.name);
    this.temporary = join(state.temporary, this.name);
    this.ledger = join(state.results, this.name);
    restoreFolders([this.output, this.temporary, this.ledger]);
    mkdirSync(this.temporary, { mode: 0o700 });
    closeSync(openSync(this.ledger, 'ax', 0o600));
    this.appendFd = openSync(this.output, 'ax', 0o600);
    this.fd = openSync(this.output, 'r+');
  }

  /** Whether something was written since the last run ended: an earlier run is not over yet. */
  hasStrayOutput(): boolean {
    return fstatSync(this.fd).size !== this.#size;
  }

  /** To be called before each run but the first. */
  begin(): void {
    if (this.#size > 0) ftruncateSync(this.fd);
    this.#size = 0;
    this.#isNamed = false;
  }

  /** Whether the output is also found under the run's own name. */
  get isNamed(): boolean {
    return this.#isNamed;
  }

  /** Gives the output a second name, by which it is found should the runner die. */
  nameFor(files: RunFiles): void {
    this.#isNamed = true;
    // After a log was quarantined, ids start anew: what an older run left here is not ours.
    linkAnew(this.output, files.output);
  }

  /** How much the run has written; what comes from now on is none of its. */
  end(): number {
    this.#size = fstatSync(this.fd).size;
    return this.#size;
  }

  remove(): void {
    removeWarmFiles(this.#state, this.name);
    closeSync(this.appendFd);
    closeSync(this.fd);
  }
}

const UNKNOWN = 'x';
const form = /^warm\.(.+)\.(\d+)\.(\d+|x)\.\d+$/;

/** `warm.<host>.<pid of the runner>.<when that started>.<number>` */
function nameWarmChild(number: number): string {
  const startTicks = readStartTicks(process.pid) ?? UNKNOWN;
  return `warm.${hostname()}.${process.pid}.${startTicks}.${number}`;
}

/** Whose child's files these are; null: they are no child's. */
export function ownerOf(name: string): Omit<ProcessIdentity, 'bootId'> | null {
  const [, host, pid, startTicks] = form.exec(name) ?? [];
  if (host === undefined) return null;
  return { host, pid: Number(pid), startTicks: startTicks === UNKNOWN ? null : Number(startTicks) };
}

/** What a child that serves many runs has begun last. */
export interface LedgerEntry {
  /** Name of the child's files. */
  readonly child: string;
  /** Epoch milliseconds. */
  readonly startedAt: number;
}

/** By the keys of the runs. */
export function readLedgers({ results }: StateFolder): ReadonlyMap<string, LedgerEntry> {
  const ledgers = new Map<string, LedgerEntry>();
  for (const child of listNames(results).filter((each) => ownerOf(each) !== null)) {
    const path = join(results, child);
    ifPossible(() => {
      const key = readFileSync(path, 'latin1').slice(0, LEDGER_BYTES).trim();
      const startedAt = Math.round(statSync(path).mtimeMs);
      if (key !== '') ledgers.set(key, { child, startedAt });
    });
  }
  return ledgers;
}

export function removeWarmFiles(state: StateFolder, name: string): void {
  ifPossible(() => unlinkSync(join(state.results, name)));
  ifPossible(() => unlinkSync(join(state.output, name)));
  ifPossible(() => removeTree(join(state.temporary, name)));
}
