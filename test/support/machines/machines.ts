import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DATABASE_VARIABLE } from '../../../src/store/server/connect/url.ts';
import { type Started, startCommand } from '../calls/start-command.ts';
import { cronPlace } from '../places/cron-place.ts';
import { makeTemporaryRoot } from '../places/temporary-root.ts';
import { makeLink } from './link.ts';
import { type Network, startNetwork } from './network.ts';

const preload = new URL('./clock.cjs', import.meta.url).pathname;

/** One of several that share a log: with a root, a name, a clock and a network of its own. */
export interface Machine {
  readonly name: string;
  readonly root: string;
  /** What its clock is ahead of the database's. */
  readonly skewMs: number;
  readonly network: Network;
  /** Whether its network can lose what it carries without anybody being told. */
  readonly isLinked: boolean;
  call(args: readonly string[]): Started;
}

export interface Machines {
  /** Of the first machine; the log is that of its root. */
  readonly root: string;
  readonly all: readonly Machine[];
  /** Before the names of their tables; of MySQL the database. */
  readonly schema: string;
  /** The clock of the database, by which all of them live. UTC epoch milliseconds. */
  now(): number;
  /** Has it show this instant, and go on from there. */
  moveTo(instantMs: number): void;
  /** Lines that scripts have written. */
  evidence(): readonly Evidence[];
}

/** A script that has begun or ended, as it says itself. */
export interface Evidence {
  readonly what: 'start' | 'end';
  /** Name of its run's files. */
  readonly run: string;
  readonly host: string;
  readonly script: string;
}

/** A script that says when it begins and ends, and lasts so long. */
export function witness(name: string, seconds = 0.05): string {
  const say = (what: string): string => `echo "${what} $RUNNER_RUN $RUNNER_HOST ${name}" >> "$EVIDENCE"`;
  return `#!/bin/sh\n${say('start')}\nsleep ${seconds}\n${say('end')}\n`;
}

/**
 * The same folder on each machine, one database, and time that moves when it is told to.
 *
 * @param linked which of them have a network namespace of their own, and a link to this host
 */
export async function makeMachines(
  skewsMs: readonly number[],
  files: Readonly<Record<string, string>>,
  linked: readonly number[],
): Promise<Machines> {
  const root = makeTemporaryRoot();
  const url = new URL(process.env[DATABASE_VARIABLE] ?? '');
  const clock = join(root, 'clock');
  const evidence = join(root, 'evidence');
  writeFileSync(evidence, '');
  const moveTo = (instantMs: number): void => writeFileSync(clock, String(Math.round(instantMs - Date.now())));
  moveTo(Date.now());
  const config = JSON.stringify({ env: { EVIDENCE: evidence } });
  const machines: Machine[] = [];
  for (const [index, skewMs] of skewsMs.entries()) {
    const name = `m${index + 1}`;
    const place = index === 0 ? root : join(root, 'machines', name);
    writeFiles(place, { ...files, 'runner.config.json': config });
    const link = linked.includes(index) ? makeLink() : null;
    const network = await startNetwork({ host: url.hostname, port: Number(url.port) }, link);
    const own = new URL(url);
    own.host = network.address;
    own.searchParams.set('sslmode', 'disable');
    const { cwd, env } = cronPlace(place);
    const variables = {
      ...env,
      ...{ TZ: 'UTC', RUNNER_HOST: name, [DATABASE_VARIABLE]: own.href },
      ...{ NODE_OPTIONS: `--require=${preload}`, FLEET_CLOCK: clock, FLEET_SKEW_MS: String(skewMs) },
    };
    const call = (args: readonly string[]) =>
      startCommand(['--root', place, ...args], { cwd, env: variables }, link?.enter);
    machines.push({ name, root: place, skewMs, network, isLinked: link !== null, call });
  }
  return {
    root,
    all: machines,
    schema: url.searchParams.get('schema') ?? url.pathname.slice(1),
    moveTo,
    now: () => Date.now() + Number(readFileSync(clock, 'utf8')),
    evidence: () => readEvidence(evidence),
  };
}

function writeFiles(root: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content, { mode: name.endsWith('.sh') ? 0o755 : 0o644 });
  }
}

function readEvidence(path: string): Evidence[] {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n').filter(Boolean);
  return lines.map((line) => {
    const [what, run = '', host = '', script = ''] = line.split(' ');
    return { what: what as Evidence['what'], run, host, script };
  });
}
