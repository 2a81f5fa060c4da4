import { onTestFinished } from 'vitest';
import { commandPath, type Ended, withCompileCache } from '../calls/run-command.ts';
import { cronEnv } from '../calls/run-pass.ts';
import { type Started, startProcess } from '../calls/start-command.ts';
import type { OwnServer } from '../engines/own-server.ts';
import { killGroup } from '../faults/end-orphans.ts';
import { listRunProcesses } from '../faults/invariants-files.ts';
import { type FileContent, makeTemporaryRoot } from '../places/temporary-root.ts';
import type { Link } from './link.ts';

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
const skewedClock = new URL('skewed-clock.cjs', import.meta.url).pathname;

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
