import { join } from 'node:path';
import { defineConfig } from 'vite';
import { viteSingleFile } from 'vite-plugin-singlefile';
import { noteThirdParty } from '../../../third-party.ts';

/** The page as one file, `dashboard.html`, for the server and for the static report alike. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [noteThirdParty(), viteSingleFile({ removeViteModuleLoader: true })],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: join(import.meta.dirname, '../../../dist'),
    emptyOutDir: false,
    // Browsers since May 2024, as all of them know `light-dark()`.
    target: 'es2022',
    rolldownOptions: { input: join(import.meta.dirname, 'dashboard.html') },
  },
});
