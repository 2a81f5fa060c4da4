import { defineConfig, type UserConfig } from 'tsdown';

/** Everything pure JavaScript goes into `dist/`; only what is native stays a dependency. */
const shared: UserConfig = {
  platform: 'node',
  target: 'node22.18',
  report: false,
  outDir: 'dist',
};

export default defineConfig([
  // CommonJS starts about 10 % faster than ESM, and start-up is the hot path (docs/decisions).
  {
    ...shared,
    entry: {
      bin: 'src/bin.cts',
      cli: 'src/cli.ts',
    },
    format: 'cjs',
    minify: true,
    dts: false,
    clean: true,
    deps: { neverBundle: ['better-sqlite3', /^\.\/cli\.cjs$/], onlyBundle: false },
  },
  // Not minified: it stands in the stacks of users' scripts.
  {
    ...shared,
    entry: {
      probe: 'src/child/probe.ts',
      'transform-typescript': 'src/child/transform-typescript.ts',
    },
    format: 'cjs',
    dts: false,
    clean: false,
    deps: { neverBundle: [/^\.\/transform-typescript\.cjs$/], onlyBundle: false },
  },
  { ...shared, entry: { index: 'src/index.ts' }, format: 'esm', dts: true, clean: false },
]);
