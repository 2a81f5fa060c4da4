import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Loads a package of the peers' folder. */
export async function importPeer<Module>(name: string): Promise<Module> {
  const { resolve } = createRequire(join(process.env.BENCH_PEERS ?? '', 'package.json'));
  return (await import(pathToFileURL(resolve(name)).href)) as Module;
}
