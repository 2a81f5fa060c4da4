import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { readShellCommand } from '../../../src/hosting/crontab/import/command.ts';

const crontabs = new URL('crontabs/', import.meta.url).pathname;

/** Crontabs as the documentation of what they call gives them, and some as people have them. */
export const crontabNames = readdirSync(crontabs).sort();

export function readCrontabFile(name: string): string {
  return readFileSync(join(crontabs, name), 'latin1');
}

/** A crontab whose programs and folders lie in a folder of the test, each program one that records its call. */
export interface Sandbox {
  readonly home: string;
  readonly crontab: string;
  /** All files as they were before anything ran. */
  reset(): void;
  /** The calls since the last time, in the order of their texts: those of a pipe begin at the same time. */
  takeCalls(): string[];
  /** What commands have written, by paths. */
  readFiles(): Record<string, string>;
}

/** They do no harm and decide what runs. */
const REAL = ['cd', 'test', '[', 'date', 'gzip', 'grep', 'tee', 'echo', 'env', 'nice', 'ionice', 'flock', 'bash', 'sh'];

/** Folders of a real machine that commands name. */
const OUTSIDE = /(?<![\w.~$/}-])\/(?=(?:usr|opt|home|var|path|path-to-your-project|srv|mnt|tmp|run)\b)/g;

export function makeSandbox(name: string): Sandbox {
  const base = mkdtempSync(join(tmpdir(), 'import-'));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
  const place = join(base, 'machine');
  const stubs = join(base, 'stubs');
  const calls = join(base, 'calls');
  const crontab = rewrite(readCrontabFile(name), place, stubs);
  const reset = () => {
    for (const folder of [place, stubs, calls]) rmSync(folder, { recursive: true, force: true });
    for (const folder of [place, stubs, calls, join(place, 'home/me')]) mkdirSync(folder, { recursive: true });
    writeFileSync(join(place, 'home/me/.bash_profile'), `PATH=${stubs}:$PATH\n`);
    makeFolders(crontab, place);
    makePrograms(crontab, { place, stubs, calls });
  };
  reset();
  return {
    home: join(place, 'home/me'),
    crontab,
    reset,
    takeCalls: () => {
      const found = readdirSync(calls).map((file) => readFileSync(join(calls, file), 'latin1'));
      for (const file of readdirSync(calls)) rmSync(join(calls, file));
      return found.sort();
    },
    readFiles: () => readTree(place),
  };
}

function rewrite(crontab: string, place: string, stubs: string): string {
  const moved = crontab.replaceAll(OUTSIDE, `${place}/`).replaceAll(/ root /g, ` ${userInfo().username} `);
  // What these programs write again is not imported.
  const bare = moved.replaceAll(/^#.*(?:Whenever generated|MAGENTO (?:START|END)).*$/gm, '#');
  const found = /^PATH=/m.test(bare)
    ? bare.replace(/^PATH=/m, `PATH=${stubs}:`)
    : `PATH=${stubs}:/usr/bin:/bin\n${bare}`;
  // Cron's own is that of the user, which is no place of the test.
  return `HOME=${place}/home/me\n${found}`;
}

function makeFolders(crontab: string, place: string): void {
  for (const [path] of crontab.matchAll(new RegExp(`${place}/[\\w./-]+`, 'g')))
    mkdirSync(dirname(path), { recursive: true });
  for (const [, folder = ''] of crontab.matchAll(/\bcd ([^\s;&]+)/g))
    mkdirSync(join(inHome(folder, place)), { recursive: true });
  for (const folder of ['logs', 'app/log', 'httpdocs']) mkdirSync(join(place, 'home/me', folder), { recursive: true });
}

function inHome(path: string, place: string): string {
  return path.startsWith('/') ? path : join(place, 'home/me', path);
}

interface Places {
  readonly place: string;
  readonly stubs: string;
  readonly calls: string;
}

/** In the order of its text: program, arguments, folder, variables, standard input. */
const recorder = (calls: string) => `#!/bin/sh
path=$PATH
PATH=/usr/bin:/bin
{
  printf '<%s>' "$0" "$@"
  printf '\\n%s\\nPATH=%s\\n' "$(pwd)" "$path"
  env | grep -Ev '^(RUNNER_|PATH=|PWD=|OLDPWD=|SHLVL=|_=|LANG=|USER=|LOGNAME=)' | sort
  cat
} >"$(mktemp ${calls}/XXXXXX)"
echo "output of $(basename "$0")"
echo "errors of $(basename "$0")" >&2
`;

/** Its clock is that of cron, as `CLOCK` says it. */
const DATE = `#!/bin/sh
day=now
[ "$1" = -d ] && day=$2 && shift 2
PATH=/usr/bin:/bin exec date -d "\${CLOCK-} $day" "$@"
`;

function makePrograms(crontab: string, { place, stubs, calls }: Places): void {
  const make = (path: string) => {
    mkdirSync(dirname(path), { recursive: true });
    const name = basename(path) === 'jailshell' ? 'bash' : basename(path);
    const isReal = REAL.includes(name);
    const real = name === 'date' ? DATE : `#!/bin/sh\nPATH=/usr/bin:/bin exec ${name} "$@"\n`;
    writeFileSync(path, isReal ? real : recorder(calls));
    chmodSync(path, 0o755);
  };
  const shell = /^SHELL="?(.*?)"?$/m.exec(crontab)?.[1];
  if (shell?.startsWith(place)) make(shell);
  for (const line of crontab.split('\n').filter((each) => !/^\s*(?:#|$)/.test(each))) {
    const text = line.replaceAll('\\%', '%');
    const folder = /\bcd ([^\s;&]+)/.exec(text)?.[1] ?? '';
    for (const path of text.match(new RegExp(`${place}/[\\w./-]*bin/[\\w.-]+(?= |$)`, 'gm')) ?? []) make(path);
    for (const { name } of readShellCommand(text.replace(/^\s*(?:@\S+|(?:\S+\s+){5})/, '')).programs) {
      if (name.startsWith('/')) name.startsWith(place) && make(name);
      else if (name.includes('/')) make(join(inHome(folder, place), name));
      else if (/^[a-z][\w.-]+$/.test(name) && !REAL.includes(name)) make(join(stubs, name));
    }
  }
}

/** The root, and the script that its lines call. */
const OURS = /\/home\/me\/(?:runner|\.folder-runner|\.cache\/folder-runner)(?:\/|$)/;

function readTree(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile() && !OURS.test(entry.parentPath));
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const content = readFileSync(join(parentPath, name));
      // Its header has the time.
      return [join(parentPath, name), name.endsWith('.gz') ? 'compressed' : content.toString('latin1')];
    }),
  );
}
