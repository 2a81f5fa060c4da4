import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Measured } from './contender.ts';

const [verb = '', folder = '', count = ''] = process.argv.slice(2);

/** What a contender's program is asked to do. */
export const task = { verb, folder, count: Number(count) };

export const dataOf = (index: number) => ({ to: `user-${index}@example.org`, template: 'welcome' });

export const allData = () => Array.from({ length: task.count }, (_, index) => dataOf(index));

export function report(measured: Measured): void {
  process.stdout.write(`${JSON.stringify(measured)}\n`);
}

/** Runs what is asked for and reports the time it took. */
export async function reportTimed(verbs: Readonly<Record<string, () => unknown>>, settings: string): Promise<void> {
  const startMs = performance.now();
  await verbs[task.verb]?.();
  report({ ms: performance.now() - startMs, settings });
}

/** As the connection itself says. */
export function describePragmas(db: { pragma(name: string, options: object): unknown }): string {
  const read = (name: string) => String(db.pragma(name, { simple: true }));
  const synchronous = ['OFF', 'NORMAL', 'FULL', 'EXTRA'][Number(read('synchronous'))];
  return `journal ${read('journal_mode')}, synchronous ${synchronous}`;
}

/** Loads a package of the peers' folder. */
export async function importPeer<Module>(name: string): Promise<Module> {
  const { resolve } = createRequire(join(process.env.BENCH_PEERS ?? '', 'package.json'));
  return (await import(pathToFileURL(resolve(name)).href)) as Module;
}
