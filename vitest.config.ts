import { defineConfig } from 'vitest/config';
import { isMachineOurs, leftToCi } from './test/integration/left-to-ci.ts';

const results = process.env.VITEST_RESULTS;

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: isMachineOurs ? [] : leftToCi,
    globalSetup: ['test/build.ts', 'test/integration/left-to-ci.ts'],
    // More than there are processors, mostly: tests wait for other processes more than they work.
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A test that nobody runs is a defect: neither `.only` nor an empty run may pass.
    allowOnly: false,
    passWithNoTests: false,
    // `.ci/run` adds up the tests of several runs.
    reporters: results ? ['default', ['json', { outputFile: results }]] : ['default'],
  },
  resolve: { alias: { 'folder-runner': new URL('./src/index.ts', import.meta.url).pathname } },
});
