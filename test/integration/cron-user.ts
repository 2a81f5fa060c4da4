import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, constants, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const project = join(import.meta.dirname, '../..');

/** A throw-away user of the machine, who has the package and a Node in a home of their own. */
export interface CronUser {
  readonly name: string;
  readonly home: string;
  readonly nodePath: string;
  /** Makes all that the test has put into the home the user's. */
  ownHome(): void;
  /** What the program printed; throws when it fails. */
  run(program: string, args: readonly string[], input?: Buffer): Buffer;
  runner(...args: readonly string[]): string;
  remove(): void;
}

/** Nothing of the test's place is used: the clone and root's home may be closed to others. */
export function addCronUser(): CronUser {
  const folder = mkdtempSync(join(tmpdir(), 'cron-user-'));
  chmodSync(folder, 0o755);
  const name = `cron-user-${process.pid}`;
  const home = join(folder, 'home');
  execFileSync('useradd', ['--create-home', '--home-dir', home, '--shell', '/bin/sh', name]);
  const nodePath = join(home, 'node/bin/node');
  const ownHome = () => void execFileSync('chown', ['--recursive', `${name}:`, home]);
  const run = programOf(name, home);
  const command = join(home, 'node_modules/folder-runner/dist/bin.cjs');
  installPackage(folder, home);
  copyNode(nodePath);
  ownHome();
  return {
    name,
    home,
    nodePath,
    ownHome,
    run,
    runner: (...args) => run(nodePath, [command, ...args]).toString(),
    remove: () => {
      spawnSync('crontab', ['-u', name, '-r']);
      endProcesses(name);
      execFileSync('userdel', [name]);
      rmSync(folder, { recursive: true });
    },
  };
}

/** What cron has started at the last moment: a user at work cannot be removed. */
function endProcesses(name: string): void {
  const deadline = performance.now() + 30_000;
  // It exits with 1 once there is none.
  while (spawnSync('pkill', ['-KILL', '-u', name]).status === 0) {
    if (performance.now() > deadline) throw new Error(`${name} still has processes.`);
  }
}

function installPackage(folder: string, home: string): void {
  // Without the scripts: they would build again, under other tests that use `dist/`.
  const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder];
  const tarball = execFileSync('npm', pack, { cwd: project, encoding: 'utf8' }).trim();
  const install = ['install', '--silent', '--prefix', home, join(folder, tarball)];
  execFileSync('npm', install, { cwd: home });
}

function copyNode(nodePath: string): void {
  mkdirSync(dirname(nodePath), { recursive: true });
  copyFileSync(process.execPath, nodePath, constants.COPYFILE_FICLONE);
}

function programOf(name: string, home: string): CronUser['run'] {
  const id = (option: string): number => Number(execFileSync('id', [option, name]));
  const [uid, gid] = [id('--user'), id('--group')];
  const env = { HOME: home, LOGNAME: name, PATH: '/usr/bin:/bin' };
  return (program, args, input) => execFileSync(program, args, { uid, gid, cwd: '/', env, input: input ?? '' });
}
