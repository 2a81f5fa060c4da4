import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** What a contender's process reports of one measurement. */
export interface Measured {
  readonly ms: number;
  /** How its database is set, as it says itself. */
  readonly settings?: string;
  readonly waits?: readonly Wait[];
  /** How long its event loop stood still at a time. */
  readonly heldMs?: { readonly p99: number; readonly longest: number };
}

/** From the call of an `add`, and from its return, to the start of its handler. */
export interface Wait {
  readonly sinceCallMs: number;
  readonly sinceAddedMs: number;
}

/** Runs one verb of `<name>.child.ts` in a process of its own. */
export async function ask(
  name: string,
  verb: string,
  folder: string,
  count: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Measured> {
  const program = join(import.meta.dirname, `${name}.child.ts`);
  const args = ['--disable-warning=ExperimentalWarning', program, verb, folder, String(count)];
  try {
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      env: { ...process.env, ...env },
      maxBuffer: 64 * 1024 * 1024,
    });
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Measured;
  } catch (error) {
    throw new Error(`${name} failed to ${verb}`, { cause: error });
  }
}
