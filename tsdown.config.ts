import { copyFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import sqlite from 'better-sqlite3/package.json' with { type: 'json' };
import { defineConfig, type UserConfig } from 'tsdown';
import packageJson from './package.json' with { type: 'json' };
import { noteThirdParty } from './third-party.ts';

/**
 * One character beyond ASCII makes Node keep the whole source with two bytes for each character, and read it more
 * slowly. None stands in a tagged template, whose raw text an escape would change.
 */
const asciiOnly = {
  name: 'ascii-only',
  generateBundle: (_: unknown, bundle: Readonly<Record<string, { code?: string }>>) => {
    for (const chunk of Object.values(bundle)) {
      if (chunk.code !== undefined) chunk.code = chunk.code.replace(/[^\0-\x7f]/g, escapeUnit);
    }
  },
};

const escapeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** The messages of zod in fifty languages: the API answers in English. */
const withoutLocales = {
  name: 'without-locales',
  load: (id: string) => (/\/zod\/v4\/locales\/index\.js$/.test(id) ? "export { default as en } from './en.js';" : null),
};

/** Everything pure JavaScript goes into `dist/`; only what is native stays a dependency. */
const shared: UserConfig = {
  platform: 'node',
  target: 'node22.18',
  format: 'cjs',
  dts: false,
  clean: false,
  report: false,
  outDir: 'dist',
  plugins: [noteThirdParty(), asciiOnly],
};

/**
 * Puts all that one of these modules of each list loads at once into one file: each file costs a start 0.3 to
 * 0.5 ms.
 */
function chunkOf(name: string, priority: number, ...lists: readonly (readonly string[])[]) {
  const isLoadedBy = (id: string, sources: readonly string[], modules: Modules): boolean =>
    sources.some((source) => collectImports(join(import.meta.dirname, 'src', source), modules).has(id));
  const isIn = (id: string, modules: Modules): boolean => lists.every((sources) => isLoadedBy(id, sources, modules));
  return { priority, name: (id: string, modules: Modules) => (isIn(id, modules) ? name : null) };
}

interface Modules {
  getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null;
}

/** Asked for each module, and the same each time: asking the bundler for its graph again would take 2 GB. */
const collected = new Map<string, ReadonlySet<string>>();

function collectImports(entry: string, modules: Modules): ReadonlySet<string> {
  const known = collected.get(entry);
  if (known !== undefined) return known;
  // A file that was moved would be missed by nobody but the clock.
  if (modules.getModuleInfo(entry) === null) throw new Error(`${entry} is not part of the build`);
  const found = new Set<string>();
  collected.set(entry, found);
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
]);

const withoutUnneeded = {
  name: 'without-unneeded-built-ins',
  resolveId: (source: string, importer: string | undefined) =>
    unneeded.get(source)?.test(importer ?? '') ? '\0unneeded' : null,
  load: (id: string) => (id === '\0unneeded' ? 'module.exports = {};' : null),
};

/** SQL stands in the source as people read it: what a pass loads is 1 % smaller without the indentation. */
const withoutIndentation = {
  name: 'sql-without-indentation',
  transform: (code: string, id: string) =>
    /\/src\/store\/(sqlite|server|shared|statements)\//.test(id) ? code.replace(/\n[ \t]+/g, '\n') : null,
};

/** What `report`, `status`, `why`, `list` and `show` load. */
const readers = [
  'commands/show/report.ts',
  'commands/show/status.ts',
  'commands/show/show.ts',
  // Most of them load these, too.
  'store/statements/monitor/compare-runs.ts',
  'checks/host/crontab-calls.ts',
  'report/model/runs/script.ts',
  'store/shared/queries.ts',
];

/** What health checks load, which few passes run: apart from all that others load, too. */
const checks = ['checks/list.ts'];

/** What many passes load at their end, which nearly always find nothing wrong: one file. */
const keepers = ['worker/pass/housekeep.ts', 'store/statements/pruning.ts'];

/** What each pass loads; the log that is a file, too, as hardly anybody has it on a server. */
const passes = ['commands/cli.ts', 'commands/run/run-tier.ts', 'store/sqlite/open.ts'];

/** What reads scripts, which a pass of an empty tier does without. */
const scripts = ['discovery/folder.ts'];

/** What each command loads that is no pass, and what many of them load: nothing of this may load Kysely. */
const program = [
  'commands/program.ts',
  'commands/shared/open.ts',
  'discovery/handlers.ts',
  'report/json.ts',
  'report/terminal/screen.ts',
  'report/text/words.ts',
];

/** What runs scripts: with node:child_process, and all that this loads. */
const runners = ['worker/loop/script-executor.ts', 'store/statements/monitor/compare-runs.ts'];

/** What a pass that runs scripts may load on its way, and readers load, too: it must not load all that these do. */
const onTheWay = [
  'checks/list.ts',
  'checks/host/crontab-calls.ts',
  'monitor/alert/incidents.ts',
  'worker/pass/work-queue.ts',
  'worker/recovery/sweep.ts',
];

/**
 * better-sqlite3's JavaScript in one file instead of 14, without what finds its binary and with the version that
 * this binary must have.
 */
const oneFileOfSqlite = {
  name: 'one-file-of-better-sqlite3',
  resolveId: (source: string, importer: string | undefined) =>
    source === './binding' && /\/better-sqlite3\/lib\/index\.js$/.test(importer ?? '') ? '\0sqlite-binding' : null,
  load: (id: string) => (id === '\0sqlite-binding' ? sqliteBinding : null),
};

const sqliteBinding = `
  const { dirname, join } = require('node:path');
  const found = require.resolve('better-sqlite3/package.json');
  const { version } = require(found);
  if (version !== '${sqlite.version}') throw new Error('version ' + version + ' is not ${sqlite.version}');
  module.exports = require(join(dirname(found), 'lib/binding.js'));
`;

/** amaro carries its program as text in base64: compressed it is a third of the size, and few files need it. */
const compressedWasm = {
  name: 'compressed-wasm',
  transform: (code: string, id: string) => {
    if (!/\/node_modules\/amaro\//.test(id)) return null;
    const packed = code.replace(/(\w+\.from\()"(AGFzb[^"]+)"(, "base64"\))/, (_, from, wasm, end) => {
      const text = brotliCompressSync(Buffer.from(wasm, 'base64')).toString('base64');
      return `process.getBuiltinModule('node:zlib').brotliDecompressSync(${from}"${text}"${end})`;
    });
    if (packed === code) throw new Error('amaro has its WebAssembly in another form');
    return packed;
  },
};

/** Loaded for the few files that need it. */
const transformer = /^\.\/transform-typescript\.cjs$/;

/** By which name the driver finds it. */
const define = { BETTER_SQLITE3: "'./better-sqlite3.cjs'" };

export default defineConfig([
  // CommonJS starts about 10 % faster than ESM, and start-up is the hot path (docs/decisions).
  {
    ...shared,
    entry: { bin: 'src/commands/bin.cts', cli: 'src/commands/cli.ts', web: 'src/commands/web.cts' },
    minify: true,
    clean: true,
    define,
    deps: { neverBundle: [/^\.\/(bin|cli)\.cjs$/], onlyBundle: false },
    plugins: [noteThirdParty(), asciiOnly, withoutUnneeded, withoutIndentation, withoutLocales],
    // graceful-fs waits for free file descriptors; a lock needs one. Loading it would change node:fs for all.
    inputOptions: { resolve: { alias: { 'graceful-fs': 'node:fs' } } },
    hooks: {
      'build:done': async ({ options: { outDir } }) => {
        const { dirname } = import.meta;
        await copyFile(join(dirname, 'src/hosting/crontab/cron.sh'), join(outDir, 'cron.sh'));
        await copyFile(join(dirname, 'src/commands/web-app.d.cts'), join(outDir, 'web.d.cts'));
      },
    },
    outputOptions: {
      codeSplitting: {
        groups: [
          chunkOf('pass', 6, [...passes, 'schedule/expected-call.ts']),
          chunkOf('scripts', 5, scripts),
          chunkOf('housekeep', 4, keepers),
          // Apart, as neither of these two is to load the other.
          chunkOf('shared', 3, readers, [...runners, ...onTheWay]),
          chunkOf('program', 2.5, program),
          chunkOf('read', 2, readers),
          chunkOf('run', 1, runners),
          chunkOf('checks', 0, checks),
        ],
      },
    },
  },
  {
    ...shared,
    entry: { 'better-sqlite3': createRequire(import.meta.url).resolve('better-sqlite3') },
    minify: true,
    deps: { neverBundle: ['better-sqlite3/package.json'], onlyBundle: false },
    plugins: [noteThirdParty(), asciiOnly, oneFileOfSqlite],
  },
  // Not minified: it stands in the stacks of users' scripts. With the version in its name, so that a runner whose
  // package was replaced finds none, and never one that it would not understand.
  {
    ...shared,
    entry: { [`probe-${packageJson.version}`]: 'src/child/probe/probe.ts' },
    deps: { neverBundle: [transformer] },
    inputOptions: { makeAbsoluteExternalsRelative: false },
  },
  // Apart, so that the probe shares no file with it: it costs each script's start.
  {
    ...shared,
    entry: { [`handler-host-${packageJson.version}`]: 'src/child/host/host.ts' },
    deps: { neverBundle: [transformer] },
    inputOptions: { makeAbsoluteExternalsRelative: false },
  },
  {
    ...shared,
    entry: { 'transform-typescript': 'src/child/typescript/transform.ts' },
    deps: { onlyBundle: false },
    plugins: [noteThirdParty(), asciiOnly, compressedWasm],
  },
  {
    ...shared,
    entry: { index: 'src/index.ts' },
    define,
    format: 'esm',
    dts: true,
    // `require` gets the very same module, but TypeScript asks for types by another name.
    hooks: {
      'build:done': ({ options: { outDir } }) => copyFile(join(outDir, 'index.d.mts'), join(outDir, 'index.d.cts')),
    },
  },
  // For programs elsewhere, and for browsers: it needs nothing but fetch.
  {
    ...shared,
    entry: { client: 'src/dashboard/client/client.ts' },
    fixedExtension: true,
    format: 'esm',
    dts: true,
    deps: { onlyBundle: false },
    hooks: {
      'build:done': ({ options: { outDir } }) => copyFile(join(outDir, 'client.d.mts'), join(outDir, 'client.d.cts')),
    },
  },
]);
