import { pathToFileURL } from 'node:url';
import { createContext } from './create-context.ts';
import type { JobContext } from './job-context.ts';
import type { ProbeOptions } from './probe-contract.ts';

type DefaultFunction = (context: JobContext) => unknown;

/**
 * Calls the script's default function once the script itself has been evaluated. The script is
 * Node's own entry point, so `import.meta.main`, `require.main` and `process.argv` are as ever;
 * this only joins it.
 *
 * @returns whether the function was called and its promise is still open
 */
export function callDefault(options: ProbeOptions): () => boolean {
  let open = false;
  const call = async (exported: unknown): Promise<void> => {
    const run = findDefault(exported);
    if (run === null) return;
    open = true;
    await run(createContext(options.context));
    open = false;
  };
  setImmediate(() => {
    const main = process.mainModule;
    // Not loaded: it threw, and a handler of its own went on. Importing would run it a second time.
    if (main !== undefined) return main.loaded ? call(main.exports) : undefined;
    // The same module as the entry point's, not a second one. If it fails, Node reports that itself.
    return import(pathToFileURL(options.scriptPath).href).then(call, () => {});
  });
  return () => open;
}

/** `export default`, `exports.default` or `module.exports =` a function. */
function findDefault(exported: unknown): DefaultFunction | null {
  if (typeof exported === 'function')
    return isClass(exported) ? null : (exported as DefaultFunction);
  if (typeof exported !== 'object' || exported === null) return null;
  const { default: inner } = exported as { readonly default?: unknown };
  return inner === exported ? null : findDefault(inner);
}

/** Made for others to use; it cannot be called. */
function isClass(exported: object): boolean {
  return Function.prototype.toString.call(exported).startsWith('class');
}
