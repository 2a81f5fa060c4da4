import { critical, type Found, note, ok, warning } from '../../monitor/finding.ts';
import { findSharedNames, readDifferences, recentMachines } from '../../monitor/machines.ts';
import { openExistingStore } from '../../store/open.ts';
import type { DatabaseFacts } from '../../store/server/examine.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { type Machine, machinesOf } from '../../store/statements/registers.ts';
import { now } from '../../system/base/clock.ts';
import { countOf, formatSpan } from '../../system/base/format.ts';
import { machineName } from '../../system/process/identity.ts';
import { type HostCheck, listOf, unknownWithoutLog } from './site.ts';

/** Which machines share the log, and whether they have the same scripts, clocks and versions. */
export const checkMachines: HostCheck = {
  code: 'machines',
  run: async ({ state, env }) => {
    if (!isOnServer(env)) return [ok(`this is ${machineName()}; no others share the log`)];
    const store = await openExistingStore(state).catch(() => null);
    if (store === null) return [unknownWithoutLog];
    try {
      const at = now();
      const machines = recentMachines(await machinesOf(store.statements).list(), at);
      const boots = await machinesOf(store.statements).boots(at - NAMED_WITHIN_MS);
      const differences = await readDifferences(store, at);
      return [
        ok(`this is ${machineName()}; ${describeMachines(machines)}`),
        ...findSharedNames(boots).map(describeSharedName),
        ...machines.flatMap(judgeClock),
        ...judgeVersions(machines),
        ...differences.map((found) => note(found, 'Copy it there, or name its machines by a tag: `@host`.')),
      ];
    } finally {
      await store.close();
    }
  },
};

function describeMachines(machines: readonly Machine[]): string {
  const names = machines.map(({ host }) => host).toSorted();
  return names.length === 0 ? 'no pass has run yet' : `seen within a week: ${listOf(names)}`;
}

/** A day: after a machine gets another name, the warning about the old one soon ends. */
const NAMED_WITHIN_MS = 86_400_000;

function describeSharedName(host: string): Found {
  return critical(
    `several machines have the name ${host}: passes of different boots took turns within a day`,
    'Give each a name of its own, by RUNNER_HOST in the first lines of its crontab, as docs/database.md shows.',
  );
}

const WRONG_MS = 60_000;

function judgeClock({ host, clockOffsetMs }: Machine): Found[] {
  if (clockOffsetMs === 0) return [];
  const by = `${formatSpan(Math.abs(clockOffsetMs))} ${clockOffsetMs > 0 ? 'behind' : 'ahead of'}`;
  const found = `the clock of ${host} is ${by} the database's`;
  const cure = 'Have it set by NTP. Until then the machine goes by the database’s clock, and its crontab by its own.';
  return [Math.abs(clockOffsetMs) < WRONG_MS ? note(found) : warning(found, cure)];
}

function judgeVersions(machines: readonly Machine[]): Found[] {
  const versions = [...new Set(machines.map(({ runnerVersion }) => runnerVersion))];
  if (versions.length < 2) return [];
  return [
    note(`${countOf(versions.length, 'version')} of the runner: ${listOf(versions)}`, 'Install the same one on all.'),
  ];
}

const NEWEST_CLOCK_MS = 1_000;
/** Each job costs a few of these. */
const SLOW_TRIP_MS = 50;
const NEARLY_FULL = 0.8;

/** The log where it is on a database server: whether it can be used, and how well. */
export async function checkDatabase(root: string, env: NodeJS.ProcessEnv): Promise<Found[]> {
  let facts: DatabaseFacts;
  try {
    const { examineDatabase } = await import('../../store/server/examine.ts');
    facts = await examineDatabase(root, env);
  } catch (error) {
    return [critical((error as Error).message, 'Until then scripts wait, but for those with `@offline run`.')];
  }
  return [
    ok(describeDatabase(facts)),
    ...judgeTls(facts),
    ...judgeRights(facts),
    ...judgePitfall(facts),
    ...judgeConnections(facts),
    ...judgeTrip(facts),
    ...judgeOwnClock(facts),
    ok(`time zone of this machine: ${Intl.DateTimeFormat().resolvedOptions().timeZone}; all machines need the same`),
  ];
}

function describeDatabase({ name, version, tls, schemaVersion, connections, tripMs }: DatabaseFacts): string {
  const schema = schemaVersion === 0 ? 'no tables yet' : `schema ${schemaVersion}`;
  const { used, limit } = connections;
  const way = tls ?? 'no TLS';
  return `${name}: ${version}, ${way}, ${schema}, ${used} of ${limit} connections, ${tripMs.toFixed(1)} ms away`;
}

function judgeTls({ tls, isRemote }: DatabaseFacts): Found[] {
  if (tls !== null || !isRemote) return [];
  return [
    warning(
      'the connection is not encrypted: others on the network can read it',
      'Remove `sslmode=disable` from the address, unless the network is private.',
    ),
  ];
}

function judgeRights({ missingRights }: DatabaseFacts): Found[] {
  if (missingRights.length === 0) return [];
  return [
    critical(
      `this user lacks rights: ${missingRights.join(', ')}`,
      'docs/database.md has the statements that grant them.',
    ),
  ];
}

function judgePitfall({ pitfall }: DatabaseFacts): Found[] {
  if (pitfall === null) return [];
  return [critical(`${pitfall}: the server refuses writes`, 'Have it set to ROW or MIXED.')];
}

function judgeConnections({ connections: { used, limit } }: DatabaseFacts): Found[] {
  if (used < limit * NEARLY_FULL) return [];
  return [
    warning(
      `${used} of ${limit} connections are in use`,
      'Raise the limit, or run fewer workers: each takes one, and waits for it.',
    ),
  ];
}

function judgeTrip({ tripMs }: DatabaseFacts): Found[] {
  if (tripMs < SLOW_TRIP_MS) return [];
  return [note('the database is far away: each job costs a few round trips', 'Put it near the machines.')];
}

function judgeOwnClock({ clockOffsetMs }: DatabaseFacts): Found[] {
  if (Math.abs(clockOffsetMs) < NEWEST_CLOCK_MS) return [];
  const way = clockOffsetMs > 0 ? 'behind' : 'ahead of';
  return [
    warning(
      `the clock of this machine is ${formatSpan(Math.abs(clockOffsetMs))} ${way} the database's: harmless, because ` +
        `the database's counts`,
      'Have it set by NTP.',
    ),
  ];
}
