import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeFleet } from '../../support/engines/machines.ts';
import { type OwnServer, startOwnPostgres } from '../../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

let server: OwnServer;
beforeAll(async () => {
  server = await startOwnPostgres();
}, 120_000);
afterAll(async () => {
  await server?.stop();
});

/** Says which machine runs it for which time, in a file that all of them see. */
const tell = (file: string, tag: string) =>
  `#!/bin/sh\n# ${tag}\necho "$RUNNER_HOST $RUNNER_SCHEDULED_FOR" >> ${file}\n`;

const linesOf = (file: string): readonly string[] =>
  existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').toSorted() : [];

const hostOf = (line: string): string | undefined => line.split(' ')[0];

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** What the clocks here are ahead: a time before their files were there is none of new scripts. */
const AHEAD = 3 * MINUTE;

/** The whole minute before what these clocks show, and its time of day in UTC. */
function lastMinute() {
  const at = new Date(Math.floor((Date.now() + AHEAD) / MINUTE) * MINUTE);
  return { at, time: at.toISOString().slice(11, 16) };
}

test('machines run each time of a schedule once, whichever has a pass first, however wrong its clock is', async () => {
  const fleet = makeFleet(server);
  const ran = join(makeTemporaryRoot(), 'ran');
  const { at, time } = lastMinute();
  const files = { 'jobs/daily/a.sh': tell(ran, `@schedule daily at ${time} in UTC`) };
  const machines = [0, 30, 90].map((skew, index) =>
    fleet.machine(`web-${index}`, files, { skewMs: AHEAD + skew * 1_000 }),
  );
  for (const machine of machines) expect(await machine.call('daily')).toMatchObject({ status: 0, stderr: '' });
  await Promise.all(machines.map((machine) => machine.call('daily')));
  const lines = linesOf(ran);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(at.toISOString());
});

test('a machine whose clock is a day ahead runs a time once, and the others go on', async () => {
  const fleet = makeFleet(server);
  const ran = join(makeTemporaryRoot(), 'ran');
  const files = { 'jobs/daily/a.sh': tell(ran, `@schedule daily at ${lastMinute().time} in UTC`) };
  const ahead = fleet.machine('web-1', files, { skewMs: 3 * DAY });
  const right = fleet.machine('web-2', files, { skewMs: AHEAD });
  for (const machine of [ahead, right, ahead, right]) await machine.call('daily');
  expect(linesOf(ran).map(hostOf)).toEqual(['web-1', 'web-2']);
});

test('after a boot of one machine, only that one runs what asks for it', async () => {
  const fleet = makeFleet(server);
  const ran = join(makeTemporaryRoot(), 'ran');
  const files = { 'jobs/hourly/a.sh': tell(ran, '@reboot'), 'jobs/daily/b.sh': 'exit 0\n' };
  const [one, other] = [fleet.machine('web-1', files, { uptimeS: 0 }), fleet.machine('web-2', files, { uptimeS: 0 })];
  for (const machine of [one, other]) await machine.call('daily');
  // Of a machine that is new to the log, a boot within the last hour is one that it has not run anything after.
  const before = linesOf(ran).map(hostOf);
  await fleet.ask(`update chores set name = 'boot web-1 earlier' where name like 'boot web-1 %'`);
  for (const machine of [other, one, other, one]) await machine.call('daily');
  expect(linesOf(ran).map(hostOf)).toEqual([...before, 'web-1'].toSorted());
});
