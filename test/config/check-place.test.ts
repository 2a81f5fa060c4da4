import { chmodSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkPlace } from '../../src/config/check-place.ts';
import { defaultSettings } from '../../src/config/settings.ts';
import { createStateFolder, stateFolderOf } from '../../src/config/state-folder.ts';
import { UsageError } from '../../src/config/usage-error.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

function check(root: string, allowUnsafe = false): void {
  checkPlace(root, stateFolderOf(root), { ...defaultSettings, allowUnsafe });
}

describe('a root', () => {
  test('without a state folder is fine: there will be one', () => {
    expect(() => check(makeTemporaryRoot())).not.toThrow();
  });

  test('inside a web root is refused with the cure, also behind a link, unless it is forced', () => {
    const home = makeTemporaryRoot({ 'domains/a.org/public_html/tools/jobs/hourly/a.sh': '' });
    const root = join(home, 'domains/a.org/public_html/tools');
    symlinkSync(root, join(home, 'tools'));
    for (const path of [root, join(home, 'tools')]) {
      expect(() => check(path)).toThrow(UsageError);
      expect(() => check(path)).toThrow(
        `${path} is inside ${home}/domains/a.org/public_html, which a web server probably hands out`,
      );
      expect(() => check(path)).toThrow(`mv ${path} ~/runner`);
      expect(() => check(path)).toThrow(/allowUnsafe: true .* or RUNNER_ALLOW_UNSAFE=1/);
      expect(() => check(path, true)).not.toThrow();
    }
  });
});

describe('a state folder', () => {
  test('of one’s own that is too open is closed, and nothing is said', () => {
    const root = makeTemporaryRoot();
    const state = stateFolderOf(root);
    createStateFolder(state);
    chmodSync(state.path, 0o777);
    check(root);
    createStateFolder(state);
    expect(statSync(state.path).mode & 0o777).toBe(0o700);
  });

  test('is refused when others could have put something in', () => {
    const root = makeTemporaryRoot();
    const state = stateFolderOf(root);
    createStateFolder(state);
    writeFileSync(state.database, '');
    chmodSync(state.database, 0o666);
    check(root);
    chmodSync(state.path, 0o777);
    expect(() => check(root)).toThrow(
      '.runner/activity.db can be written by anybody (mode 0666); close it with: chmod go-w .runner/activity.db, or allow it',
    );
    expect(() => check(root, true)).not.toThrow();
  });

  test('may be a link to a folder that only its owner can write', () => {
    const root = makeTemporaryRoot();
    const disk = makeTemporaryRoot();
    mkdirSync(join(disk, 'state'), { mode: 0o700 });
    symlinkSync(join(disk, 'state'), join(root, '.runner'));
    expect(() => check(root)).not.toThrow();
    chmodSync(join(disk, 'state'), 0o777);
    expect(() => check(root)).toThrow(`chmod go-w ${join(disk, 'state')}`);
  });
});
