import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/build.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A test that nobody runs is a defect: neither `.only` nor an empty run may pass.
    allowOnly: false,
    passWithNoTests: false,
  },
  resolve: { alias: { 'folder-runner': new URL('./src/index.ts', import.meta.url).pathname } },
});
