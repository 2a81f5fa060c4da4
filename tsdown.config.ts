import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defineConfig, type UserConfig } from 'tsdown';

/** Everything pure JavaScript goes into `dist/`; only what is native stays a dependency. */
const shared: UserConfig = {
  platform: 'node',
  target: 'node22.18',
  format: 'cjs',
  dts: false,
  clean: false,
  report: false,
  outDir: 'dist',
};

/** Puts all that a module loads at once into one file: each file costs a start 0.3 to 0.5 ms. */
function chunkOf(name: string, sources: readonly string[], priority: number) {
  const entries = sources.map((source) => join(import.meta.dirname, source));
  const isIn = (id: string, modules: Modules): boolean =>
    entries.some((entry) => collectImports(entry, modules).has(id));
  return { priority, name: (id: string, modules: Modules) => (isIn(id, modules) ? name : null) };
}

interface Modules {
  getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null;
}

function collectImports(entry: string, modules: Modules): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (id: string): void => {
    if (found.has(id)) return;
    found.add(id);
    modules.getModuleInfo(id)?.importedIds.forEach(visit);
  };
  visit(entry);
  return found;
}

/** Built-in modules that a library loads for what is never used here, at 4 to 5 ms a start each. */
const unneeded = new Map([
  ['node:child_process', /\/node_modules\/commander\//], // for subcommands that are programs
  ['assert', /\/node_modules\/signal-exit\//], // checks that its callback is a function
]);

const withoutUnneeded = {
  name: 'without-unneeded-built-ins',
  resolveId: (source: string, importer: string | undefined) =>
    unneeded.get(source)?.test(importer ?? '') ? '\0unneeded' : null,
  load: (id: string) => (id === '\0unneeded' ? 'module.exports = { equal() {} };' : null),
};

export default defineConfig([
  // CommonJS starts about 10 % faster than ESM, and start-up is the hot path (docs/decisions).
  {
    ...shared,
    entry: { bin: 'src/bin.cts', cli: 'src/cli.ts' },
    minify: true,
    clean: true,
    deps: { neverBundle: ['better-sqlite3', /^\.\/cli\.cjs$/], onlyBundle: false },
    plugins: [withoutUnneeded],
    // graceful-fs waits for free file descriptors; a lock needs one, and 3 ms of start-up less.
    inputOptions: { resolve: { alias: { 'graceful-fs': 'node:fs' } } },
    outputOptions: {
      codeSplitting: {
        groups: [
          chunkOf('pass', ['src/commands/run/run-tier.ts'], 4),
          chunkOf('text', ['src/report/text/words.ts', 'src/report/terminal/screen.ts'], 3),
          chunkOf('report', ['src/report/model/overview.ts', 'src/report/terminal/overview.ts'], 2),
          chunkOf('run', ['src/worker/start/work-pass.ts'], 1),
        ],
      },
    },
  },
  // Not minified: it stands in the stacks of users' scripts.
  {
    ...shared,
    entry: {
      probe: 'src/child/probe/probe.ts',
      'compile-typescript': 'src/child/typescript/compile.ts',
      'transform-typescript': 'src/child/typescript/transform.ts',
    },
    deps: { neverBundle: [/^\.\/(compile|transform)-typescript\.cjs$/], onlyBundle: false },
    inputOptions: { makeAbsoluteExternalsRelative: false },
  },
  // Apart, so that the probe shares no file with it: it costs each script's start.
  {
    ...shared,
    entry: { 'handler-host': 'src/child/host/host.ts' },
    deps: { neverBundle: [/^\.\/compile-typescript\.cjs$/], onlyBundle: false },
    inputOptions: { makeAbsoluteExternalsRelative: false },
  },
  {
    ...shared,
    entry: { index: 'src/index.ts' },
    format: 'esm',
    dts: true,
    // `require` gets the very same module, but TypeScript asks for types by another name.
    hooks: {
      'build:done': ({ options: { outDir } }) =>
        copyFile(join(outDir, 'index.d.mts'), join(outDir, 'index.d.cts')),
    },
  },
]);
