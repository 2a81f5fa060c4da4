import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { commandPath, pathWithoutCrontab } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { copyWithOtherWords } from './change-words.ts';

const project = join(import.meta.dirname, '../../..');
const SENTENCES = 1_000;

/** Plays the story with the product of a folder, in a root of its own. */
async function play(folder: string): Promise<Record<string, unknown>> {
  const root = makeTemporaryRoot();
  const args = [join(import.meta.dirname, 'play.child.ts'), join(folder, 'src'), dirname(commandPath), root];
  const env = { PATH: pathWithoutCrontab, TZ: 'UTC' };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, maxBuffer: 64 * 1024 * 1024 });
  return JSON.parse(stdout);
}

test('a product whose sentences all have other words behaves as before', async () => {
  const other = join(makeTemporaryRoot(), 'product');
  mkdirSync(other);
  expect(copyWithOtherWords(other, 'one')).toBeGreaterThan(SENTENCES);
  const [as, changed] = await Promise.all([play(project), play(other)]);
  expect(changed).toEqual(as);
});
