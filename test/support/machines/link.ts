import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';

/**
 * `up`: all goes through. `down`: the cable was pulled at the far end: packets vanish, and nobody is told.
 * `unreachable`: the machine has no way to the address, and knows it.
 */
export type LinkState = 'up' | 'down' | 'unreachable';

/** A network namespace for a machine, and its cable to this host. */
export interface Link {
  /** This host's, as the machine has it. */
  readonly address: string;
  /** The machine's, as this host has it. */
  readonly machine: string;
  /** What stands before a command that is to run on the machine. */
  readonly enter: readonly string[];
  set(state: LinkState): void;
}

/** Networks of tests: https://www.rfc-editor.org/rfc/rfc2544. */
export const LINKS = '198.18.0.0/15';
const PREFIX = 'folder-runner-test';

let links = 0;

/** Until the test has ended. What is left by one that was killed goes with the next one. */
export function makeLink(): Link {
  sweep();
  links += 1;
  const name = `${PREFIX}-${process.pid}-${links}`;
  const device = deviceOf(name);
  onTestFinished(() => remove(name));
  const inside = (...args: readonly string[]): void => void ip('-n', name, ...args);
  ip('netns', 'add', name);
  ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
  const [here, there] = addressesOf(device);
  ip('address', 'add', `${here}/30`, 'dev', device);
  ip('link', 'set', device, 'up');
  inside('address', 'add', `${there}/30`, 'dev', 'eth0');
  inside('link', 'set', 'lo', 'up');
  inside('link', 'set', 'eth0', 'up');
  return {
    address: here,
    machine: there,
    enter: ['nsenter', `--net=/run/netns/${name}`],
    set: (state) => {
      // A route for one address comes before that of its network.
      inside('route', 'flush', 'type', 'unreachable');
      if (state === 'unreachable') inside('route', 'add', 'unreachable', `${here}/32`);
      ip('link', 'set', device, state === 'down' ? 'down' : 'up');
    },
  };
}

/** Two of four addresses that no other link of this host has: they go by the number of its device. */
function addressesOf(device: string): readonly [string, string] {
  const first = (Number(readFileSync(`/sys/class/net/${device}/ifindex`, 'utf8')) % 2 ** 15) * 4;
  const addressAt = (at: number): string => `198.${18 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`;
  return [addressAt(first + 1), addressAt(first + 2)];
}

function deviceOf(name: string): string {
  return name.replace(PREFIX, 'fr');
}

/** Why there can be none here; null: there can. */
export function findLinkFlaw(): string | null {
  if (process.getuid?.() !== 0) return 'only root can make network namespaces';
  const name = `${PREFIX}-${process.pid}-0`;
  try {
    ip('netns', 'add', name);
    ip('link', 'add', deviceOf(name), 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    execFileSync('nsenter', [`--net=/run/netns/${name}`, 'true'], { stdio: 'pipe' });
    return null;
  } catch (error) {
    return (error as Error).message.trim().replaceAll('\n', ' ');
  } finally {
    remove(name);
  }
}

function sweep(): void {
  for (const name of namespaces()) {
    const [, pid] = new RegExp(`^${PREFIX}-(\\d+)-`).exec(name) ?? [];
    if (pid !== undefined && !isAlive(Number(pid))) remove(name);
  }
}

function namespaces(): readonly string[] {
  return readOut('netns', 'list').map((line) => line.split(' ')[0] as string);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** With all that runs in it: whoever is there keeps it. */
function remove(name: string): void {
  for (const pid of readOut('netns', 'pids', name)) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
  readOut('link', 'delete', deviceOf(name));
  readOut('netns', 'delete', name);
}

/** Lines; none of what is not there. */
function readOut(...args: readonly string[]): readonly string[] {
  try {
    return ip(...args)
      .split('\n')
      .filter(Boolean);
  } catch {
    return [];
  }
}

function ip(...args: readonly string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}
