import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Started } from '../support/command.ts';
import { findLinkFlaw, type Link, makeLink } from '../support/engines/links.ts';
import { makeFleet, type TestFleet, type TestMachine } from '../support/engines/machines.ts';
import { type OwnServer, ownServersFor } from '../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

/*
 * Machines whose cable is pulled in the middle of a run: packets vanish in both directions, no connection ends. Minutes
 * pass until a side takes the other for gone, so all that is waited for is waited for at once.
 */

const flaw = findLinkFlaw();
if (flaw !== null) console.warn(`NOT TESTED HERE: links that go down, as ${flaw}.`);

/** So long a statement waits for its answer at most, and what follows it for a new connection. */
const GIVEN_UP_MS = 105_000;

const RETRIED = '# @on-crash retry\n# @retry-delay 1s\n';

interface Shared {
  readonly server: OwnServer;
  readonly fleet: TestFleet;
}

interface Place extends Shared {
  readonly lost: TestMachine;
  readonly link: Link;
  /** Machines that have begun a script, in their order. */
  began(): readonly string[];
  /** Has the script of the lost machine come to its end. */
  release(): void;
}

/** Each story has one for itself: whoever lives takes over what others were lost with. */
async function share(server: OwnServer): Promise<Shared> {
  const fleet = makeFleet(server);
  if (server.engine === 'mysql') await server.ask(`create database ${fleet.schema}`);
  return { server, fleet };
}

/** A machine behind a link, with a script in this tier that lasts there, and only there. */
function makePlace({ server, fleet }: Shared, name: string, tier: string): Place {
  const began = join(makeTemporaryRoot(), 'began');
  const waits = `[ "$RUNNER_HOST" = ${name} ] || exit 0\nwhile [ ! -e ${began}.go ]; do sleep 0.02; done\necho late\n`;
  const content = `#!/bin/sh\n${RETRIED}echo "$RUNNER_HOST" >> ${began}\n${waits}`;
  const link = makeLink();
  const lost = fleet.machine(name, { [`jobs/${tier}/${name}.sh`]: content }, { link });
  return {
    ...{ server, fleet, lost, link },
    began: () => (existsSync(began) ? readFileSync(began, 'utf8').trim().split('\n') : []),
    release: () => writeFileSync(`${began}.go`, ''),
  };
}

/** Its script has begun, and nothing is under way but that. */
async function begin({ fleet, lost, began }: Place, tier: string): Promise<Started> {
  const pass = lost.start(tier);
  await until('the script has begun', () => began().length === 1);
  await until('its run is in the log', async () => (await readRuns(fleet, lost).catch(() => [])).length === 1);
  return pass;
}

interface Run {
  readonly host: string;
  readonly outcome: string;
  readonly output: string | null;
  readonly job: string;
}

function readRuns(fleet: TestFleet, { name }: TestMachine): Promise<readonly Run[]> {
  return fleet.ask<Run>(
    `select h.host as host, r.outcome as outcome, o.output as output, j.state as job from runs r
     join scripts s on s.id = r.script_id join workers w on w.id = r.worker_id join hosts h on h.id = w.host_id
     join jobs j on j.id = r.job_id left join outputs o on o.run_id = r.id
     where s.name like '%/${name}' order by r.id`,
  );
}

function spooled({ root }: TestMachine): number {
  const folder = join(root, '.runner/spool');
  return existsSync(folder) ? readdirSync(folder).length : 0;
}

/** How many connections of the machine its server has, or has wait for a lock. */
async function countConnections({ server, link }: Place, which: 'all' | 'waiting' = 'all'): Promise<number> {
  const isPostgres = server.engine === 'postgres';
  const waits = isPostgres ? `wait_event_type = 'Lock'` : `state like '%metadata lock%'`;
  const [table, host] = isPostgres ? ['pg_stat_activity', 'client_addr'] : ['information_schema.processlist', 'host'];
  const from = isPostgres ? `= '${link.machine}'` : `like '${link.machine}:%'`;
  const condition = `${host} ${from}${which === 'all' ? '' : ` and ${waits}`}`;
  return (await server.ask(`select 1 from ${table} where ${condition}`)).length;
}

const quiet = { status: 0, stdout: '', stderr: '' };

describe.skipIf(flaw !== null)('a link that goes down', () => {
  const servers: OwnServer[] = [];
  beforeAll(async () => {
    const here = ownServersFor('links that go down');
    servers.push(...(await Promise.all(here.map(({ start }) => start({ isLinked: true })))));
  }, 120_000);
  afterAll(() => Promise.all(servers.map((server) => server.stop())));

  test('in a run: nobody hangs, and what others have taken over stays as they have settled it', async () => {
    const stories = [isDownForLong, isDownForShort, isUnreachable, isDownForReader];
    await Promise.all(servers.flatMap((server) => stories.map(async (story) => story(await share(server)))));
  }, 240_000);
});

/** For longer than its lease: another one takes over, and what it has to tell when it is back changes nothing. */
async function isDownForLong(shared: Shared): Promise<void> {
  const place = makePlace(shared, 'long', 'weekly');
  const { fleet, lost, link, began } = place;
  const other = fleet.machine('other', {
    'jobs/weekly/long.sh': readFileSync(join(lost.root, 'jobs/weekly/long.sh'), 'utf8'),
  });
  const pass = await begin(place, 'weekly');
  link.set('down');
  // What it says of that goes out on a connection that nobody has ended.
  place.release();
  expect(await other.call('weekly')).toEqual(quiet);
  expect(began()).toEqual(['long']);
  await fleet.silence(lost);
  await until('another machine has run it', async () => {
    await other.call('weekly');
    return began().length === 2;
  });
  expect(await readRuns(fleet, lost)).toMatchObject([
    { host: 'long', outcome: 'crashed' },
    { host: 'other', outcome: 'succeeded' },
  ]);
  expect((await within(GIVEN_UP_MS, pass.ended)).stderr).toContain('cannot be reached (');
  expect(spooled(lost)).toBe(1);
  const isForgotten = async () => (await countConnections(place)) === 0;
  await until('the server has given up the connection, too', isForgotten, GIVEN_UP_MS);
  link.set('up');
  expect(await lost.call('weekly')).toEqual(quiet);
  expect(spooled(lost)).toBe(0);
  expect(began()).toEqual(['long', 'other']);
  expect(await readRuns(fleet, lost)).toEqual([
    { host: 'long', outcome: 'crashed', output: 'late\n', job: 'finished' },
    { host: 'other', outcome: 'succeeded', output: null, job: 'finished' },
  ]);
}

/** For shorter: all goes on as if nothing had been. */
async function isDownForShort(shared: Shared): Promise<void> {
  const place = makePlace(shared, 'short', 'daily');
  const pass = await begin(place, 'daily');
  place.link.set('down');
  place.release();
  await sleep(3_000);
  place.link.set('up');
  expect(await within(GIVEN_UP_MS, pass.ended)).toEqual(quiet);
  await expectOneRun(place);
}

/** The address has no way to it any more: who comes anew learns so at once, who is connected in time. */
async function isUnreachable(shared: Shared): Promise<void> {
  // It takes a minute, and a new hour would be another slot.
  const place = makePlace(shared, 'cut', 'monthly');
  const { lost, link } = place;
  const pass = await begin(place, 'monthly');
  link.set('unreachable');
  place.release();
  const reader = await within(GIVEN_UP_MS, lost.call('report'));
  expect(reader).toMatchObject({ status: 1, stderr: expect.stringMatching(/cannot be reached \(.*EHOSTUNREACH/) });
  expect((await within(GIVEN_UP_MS, pass.ended)).stderr).toContain('cannot be reached (');
  expect(spooled(lost)).toBe(1);
  link.set('up');
  expect(await lost.call('monthly')).toEqual(quiet);
  await expectOneRun(place);
}

/** Who waits for the answer to what the server has heard learns from its own signs of life that none will come. */
async function isDownForReader(shared: Shared): Promise<void> {
  const place = makePlace(shared, 'reads', '15min');
  const { fleet, server, lost, link } = place;
  place.release();
  expect(await lost.call('15min')).toEqual(quiet);
  const held =
    server.engine === 'postgres'
      ? fleet.ask('begin; lock table runs; select pg_sleep(15)')
      : server.ask(`use ${fleet.schema}`, 'lock tables runs write', 'select sleep(15)');
  const reader = lost.start('report');
  await until('it waits', async () => (await countConnections(place, 'waiting')) > 0);
  // TCP says a moment later that the question has arrived: else it would be asked again and again.
  await sleep(1_000);
  link.set('down');
  await held;
  expect((await within(GIVEN_UP_MS, reader.ended)).stderr).toContain('cannot be reached (');
}

async function expectOneRun({ fleet, lost, began }: Place): Promise<void> {
  expect(spooled(lost)).toBe(0);
  expect(began()).toEqual([lost.name]);
  expect(await readRuns(fleet, lost)).toEqual([
    { host: lost.name, outcome: 'succeeded', output: 'late\n', job: 'finished' },
  ]);
}

async function within<T>(ms: number, ended: Promise<T>): Promise<T> {
  const late = sleep(ms, undefined, { ref: false }).then(() => {
    throw new Error(`Not within ${ms} ms`);
  });
  return await Promise.race([ended, late]);
}
