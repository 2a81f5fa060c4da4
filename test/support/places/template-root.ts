import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { type FileContent, makeTemporaryRoot, writeFiles } from './temporary-root.ts';

/**
 * What has happened in a root is done once, and each test of the file has a copy. To be called where the tests are
 * declared.
 *
 * @returns copies it to a root: left out, to one that is gone after the test
 */
export function makeTemplate(
  files: Readonly<Record<string, FileContent>>,
  prepare: (root: string) => unknown,
): (root?: string) => string {
  let template: string;
  beforeAll(async () => {
    template = mkdtempSync(join(tmpdir(), 'runner-template-'));
    mkdirSync(join(template, 'jobs'));
    writeFiles(template, files);
    await prepare(template);
  });
  afterAll(() => rmSync(template, { recursive: true, force: true }));
  return (root = makeTemporaryRoot()) => {
    cpSync(template, root, { recursive: true, preserveTimestamps: true });
    return root;
  };
}
