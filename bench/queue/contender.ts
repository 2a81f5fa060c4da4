import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** What a contender's process tells of one measurement. */
export interface Told {
  readonly ms: number;
  /** How its database is set, as it says itself. */
  readonly settings?: string;
  readonly latenciesMs?: readonly number[];
}

export interface Contender {
  readonly name: string;
  /** Its program; it is called with a verb, a new folder and a count, and prints what it tells as JSON. */
  readonly program: string;
  readonly verbs: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs one verb of a contender in a process of its own, in a new folder on the disk to be measured. */
export async function askOnce(
  contender: Contender,
  verb: string,
  count: number,
  disk: string,
): Promise<Told> {
  const folder = mkdtempSync(join(disk, 'place-'));
  try {
    return await ask(contender, verb, folder, count);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function ask(
  { name, program, env }: Contender,
  verb: string,
  folder: string,
  count: number,
): Promise<Told> {
  const args = ['--disable-warning=ExperimentalWarning', program, verb, folder, String(count)];
  try {
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      env: { ...process.env, ...env },
      maxBuffer: 64 * 1024 * 1024,
    });
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Told;
  } catch (error) {
    throw new Error(`${name} failed to ${verb}`, { cause: error });
  }
}
