import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** What stands in for the machine's `crontab`; it keeps one user's crontab in a file. */
export interface FakeCrontab {
  /** An environment in which `crontab` is the fake one. */
  readonly env: NodeJS.ProcessEnv;
  /** What cron would run by; null where the user has no crontab. */
  read(): Buffer | null;
  write(crontab: Buffer | string): void;
}

/** Says and refuses what Debian's does. */
const DEBIAN = `#!/bin/sh
case "$1" in
-l)
  if [ ! -f "$FAKE_CRONTAB" ]; then echo "no crontab for visitor" >&2; exit 1; fi
  cat "$FAKE_CRONTAB"
  ;;
-)
  cat >"$FAKE_CRONTAB.new"
  if [ -s "$FAKE_CRONTAB.new" ] && [ -n "$(tail -c 1 "$FAKE_CRONTAB.new")" ]; then
    echo "new crontab file is missing newline before EOF, can't install." >&2
    exit 1
  fi
  mv "$FAKE_CRONTAB.new" "$FAKE_CRONTAB"
  ;;
*) exit 2 ;;
esac
`;

export function makeFakeCrontab(program: string = DEBIAN): FakeCrontab {
  const folder = mkdtempSync(join(tmpdir(), 'crontab-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'visitor');
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin', 'crontab'), program, { mode: 0o755 });
  return {
    env: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, HOME: folder, FAKE_CRONTAB: file },
    read: () => readIfThere(file),
    write: (crontab) => writeFileSync(file, crontab),
  };
}

function readIfThere(file: string): Buffer | null {
  try {
    return readFileSync(file);
  } catch {
    return null;
  }
}
