import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { DATABASE_VARIABLE } from '../../../src/store/server/connect/url.ts';
import {
  commandPath,
  cronEnv,
  cronPlace,
  type Ended,
  type Started,
  startCommand,
  startProcess,
  withCompileCache,
} from '../command.ts';
import { killGroup } from '../faults/faults.ts';
import { listRunProcesses } from '../faults/log-content.ts';
import { type FileContent, makeTemporaryRoot } from '../root.ts';
import { type Link, type LinkState, makeLink } from './links.ts';
import type { OwnServer } from './own-server.ts';

/** A machine of a fleet, as far as it can be had on this one: a name, a folder, a clock, processes of its own. */
export interface TestMachine {
  readonly name: string;
  readonly root: string;
  /** Runs the command as its cron does, to its end. */
  call(...args: readonly string[]): Promise<Ended>;
  /** The same without waiting. */
  start(...args: readonly string[]): Started;
}

export interface TestFleet {
  /** Where its tables are; of MySQL the database. */
  readonly schema: string;
  machine(name: string, files?: Readonly<Record<string, FileContent>>, options?: MachineOptions): TestMachine;
  /** Asks the database what all of them share, or changes it. */
  ask<Row extends object>(statement: string): Promise<readonly Row[]>;
  /** As if the machine had been silent for longer than others wait. */
  silence(machine: TestMachine): Promise<void>;
}

interface MachineOptions {
  /** How much its clock is ahead. */
  readonly skewMs?: number;
  /** How long ago it was booted, in seconds. */
  readonly uptimeS?: number;
  /** Its way to the server, if that is another one than this host's own. */
  readonly link?: Link;
}

let fleets = 0;
const faultPoints = new URL('../faults/fault-points.cjs', import.meta.url).pathname;
const skewedClock = new URL('./skewed-clock.cjs', import.meta.url).pathname;

/** Machines that share tables of their own on this server, gone with the test. Of MySQL its database is the caller's to make. */
export function makeFleet(server: OwnServer): TestFleet {
  fleets += 1;
  const isMysql = server.engine === 'mysql';
  const schema = `fleet_${process.pid}_${fleets}`;
  const url = isMysql ? server.url('?sslmode=disable', schema) : server.url(`?schema=${schema}&sslmode=disable`);
  const cascade = isMysql ? '' : 'cascade';
  onTestFinished(async () => void (await server.ask(`drop schema if exists ${schema} ${cascade}`)));
  const ask: TestFleet['ask'] = async <Row extends object>(statement: string) =>
    (await server.ask(isMysql ? `use ${schema}` : `set search_path to ${schema}`, statement)) as readonly Row[];
  return {
    ...{ schema, ask },
    machine: (name, files = {}, { skewMs = 0, uptimeS, link } = {}) => {
      const root = makeTemporaryRoot(files);
      onTestFinished(() => {
        for (const { pid } of listRunProcesses(root)) killGroup(pid);
      });
      const address = link === undefined ? url : url.replace('@localhost:', `@${link.address}:`);
      const ofMachine = { RUNNER_HOST: name, RUNNER_DATABASE_URL: address, SKEW_MS: String(skewMs) };
      const env = { ...cronEnv(root), ...ofMachine, ...(uptimeS !== undefined && { FAULT_UPTIME: String(uptimeS) }) };
      const preloads = [...(skewMs === 0 ? [] : [skewedClock]), ...(uptimeS === undefined ? [] : [faultPoints])];
      const before = preloads.flatMap((path) => ['--require', path]);
      const start = (...args: readonly string[]) => {
        const command = [process.execPath, ...before, commandPath, '--root', root, ...args];
        const [program = '', ...rest] = [...(link?.enter ?? []), ...command];
        return startProcess(program, rest, withCompileCache({ cwd: root, env }));
      };
      return {
        ...{ name, root, start },
        call: async (...args) => await start(...args).ended,
      };
    },
    silence: async ({ name }) =>
      void (await ask(
        `update workers set lease_expires_at = 1000 where host_id in (select id from hosts where host = '${name}')`,
      )),
  };
}

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

/**
 * `open`: all goes through. `closed`: nobody is let in, and who is in is thrown out. `half-open`: connections stay, and
 * nothing goes through them, until all of them end. `slow`: each piece is late. Of a link alone: `unplugged`, when
 * packets vanish and connections outlast it, and `unreachable`.
 */
export type Weather = 'open' | 'closed' | 'half-open' | 'slow' | 'unplugged' | 'unreachable';

/** The network between a machine and the database. */
export interface Network {
  /** Where the machine finds the database: host and port. */
  readonly address: string;
  set(weather: Weather): void;
}

const SLOW_MS = 40;

const LINK_STATES: Partial<Record<Weather, LinkState>> = { unplugged: 'down', unreachable: 'unreachable' };

/** Until the test has ended. */
export async function startNetwork(
  target: { readonly host: string; readonly port: number },
  link: Link | null,
): Promise<Network> {
  const host = link?.address ?? '127.0.0.1';
  const sockets = new Set<Socket>();
  let weather: Weather = 'open';
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };
  const pass = (from: Socket, to: Socket): void => {
    from.on('data', (piece) => {
      // What is lost is lost: a connection that was cut in the midst of a statement is of no use again.
      if (weather === 'half-open') return void from.pause();
      if (weather === 'slow') setTimeout(() => to.writable && to.write(piece), SLOW_MS);
      else to.write(piece);
    });
    from.on('close', () => to.destroy());
  };
  const server = createServer((socket) => {
    keep(socket);
    if (weather === 'closed') return void socket.destroy();
    if (weather === 'half-open') return;
    const upstream = connect(target);
    keep(upstream);
    pass(socket, upstream);
    pass(upstream, socket);
  }).listen(0, host);
  await once(server, 'listening');
  const end = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    end();
    server.close();
  });
  return {
    address: `${host}:${(server.address() as { readonly port: number }).port}`,
    set: (next) => {
      const wasLost = weather === 'half-open';
      weather = next;
      link?.set(LINK_STATES[next] ?? 'up');
      if (next === 'closed' || wasLost) end();
    },
  };
}
