import { pathToFileURL } from 'node:url';

/**
 * Hands over what the script exports once it has been evaluated. The script is Node's own entry
 * point, so `import.meta.main`, `require.main` and `process.argv` are as ever; this only joins it.
 */
export function joinEntryPoint(
  scriptPath: string,
  use: (exported: unknown) => Promise<void>,
): void {
  setImmediate(() => {
    const main = process.mainModule;
    // Not loaded: it threw, and a handler of its own went on. Importing would run it a second time.
    if (main !== undefined) return main.loaded ? use(main.exports) : undefined;
    // The same module as the entry point's, not a second one. If it fails, Node reports that itself.
    return import(pathToFileURL(scriptPath).href).then(use, () => {});
  });
}
