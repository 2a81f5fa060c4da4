import { readdirSync, readFileSync, statSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The name of a chunk contains its hash. */
const CHUNK = /-[\w-]{8}\.cjs$/;

let isKept = false;
let waiting: NodeJS.Timeout | undefined;

/** Keeps the package if the process lasts so long; the latest call counts. */
export function keepPackageAfter(ms: number, distFolder: string): void {
  clearTimeout(waiting);
  waiting = setTimeout(keepPackage, ms, distFolder).unref();
}

/**
 * Keeps in memory all that this process may still load: an upgrade removes it from the disk and puts files of another
 * version there. To load all of it would take ten times as long as to read it.
 *
 * @returns whether all of it was there
 */
export function keepPackage(distFolder: string): boolean {
  isKept ||= keepChunks(distFolder);
  return isKept;
}

function keepChunks(distFolder: string): boolean {
  const kept = new Map<string, Buffer>();
  try {
    const before = stateOf(distFolder);
    const folder = pathToFileURL(distFolder).href;
    for (const name of readdirSync(distFolder).filter((each) => CHUNK.test(each))) {
      // Hundreds of paths joined by Node make V8 load its best compiler, 6 MB for good.
      kept.set(`${folder}/${name}`, readFileSync(`${distFolder}/${name}`));
    }
    if (stateOf(distFolder) !== before || !hasOwn(kept)) return false;
  } catch {
    // The package is being replaced at this moment.
    return false;
  }
  registerHooks({
    resolve: (specifier, context, next) => {
      const url = CHUNK.test(specifier) && context.parentURL ? new URL(specifier, context.parentURL).href : '';
      return kept.has(url) ? { url, format: 'commonjs', shortCircuit: true } : next(specifier, context);
    },
    load: (url, context, next) => {
      const source = kept.get(url);
      return source === undefined ? next(url, context) : { format: 'commonjs', source, shortCircuit: true };
    },
  });
  return true;
}

function stateOf(folder: string): string {
  const { ino, mtimeNs } = statSync(folder, { bigint: true });
  return `${ino} ${mtimeNs}`;
}

/** Whether the files include the one that this process was loaded from; in another version it has another name. */
function hasOwn(kept: ReadonlyMap<string, Buffer>): boolean {
  const own = import.meta.filename;
  return !CHUNK.test(basename(own)) || kept.has(pathToFileURL(own).href);
}
