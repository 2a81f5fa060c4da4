import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { machineName } from '../../../src/system/process/identity.ts';
import { DAY, HOUR, type Look, look, MINUTE, NOW, wrongOf } from '../../support/alerts.ts';
import { engine } from '../../support/engines/engines.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

/** Of a fleet it is said whose disk, and whose folder. */
const [suffix, prefix] = engine.name === 'sqlite' ? ['', ''] : [`@${machineName()}`, `${machineName()}: `];

async function open() {
  const root = makeTemporaryRoot();
  return { root, ...(await writeLog(root)) };
}

test('a disk with less room than is set is told of; with a fifth of that it is critical', async () => {
  const log = await open();
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'disk-full'));
  expect(await of({ checks: { diskFull: 1024 } })).toEqual([]);
  const { figures } = await look(log, {}, 'disk-full');
  const free = figures[0]?.value ?? 0;
  expect(await of({ checks: { diskFull: free * 2 } })).toMatchObject([
    {
      subject: `disk${suffix}`,
      status: 'warning',
      message: expect.stringMatching(new RegExp(`^${prefix}only \\d+ [GM]B free on the disk of `)),
    },
  ]);
  expect(await of({ checks: { diskFull: free * 20 } })).toMatchObject([{ status: 'critical' }]);
});

test('runs in the spool, a broken log for a week, and one that cannot be written', async () => {
  const log = await open();
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'log-unusable'));
  expect(await of()).toEqual([]);
  writeFileSync(join(log.state.path, 'activity.db.broken-20271101-140500'), '');
  writeFileSync(join(log.state.path, 'activity.db.broken-20271101-140500-wal'), '');
  const broken = {
    subject: `log${suffix}`,
    status: 'warning',
    message: `${prefix}the log was damaged 2d ago and renamed; a new one was created`,
  };
  expect(await of()).toEqual([broken]);
  expect(await of({ at: NOW + 5 * DAY + MINUTE })).toEqual([]);
  expect(await of({ checks: { logUnusable: HOUR } })).toEqual([]);
  writeFileSync(join(log.state.spool, '1000-5-abc.jsonl.unreadable'), '');
  expect(await of()).toMatchObject([
    { message: `${prefix}1 file of runs that were recorded without the log cannot be read` },
  ]);
  writeFileSync(join(log.state.spool, '1000-5-abc.jsonl'), '');
  expect(await of()).toMatchObject([
    { status: 'warning', message: `${prefix}runs of 1 pass are not in the log yet, as it could not be written` },
  ]);
});

test.skipIf(process.getuid?.() === 0 || engine.name !== 'sqlite')(
  'a log that its owner cannot write is critical',
  async () => {
    const log = await open();
    chmodSync(log.state.database, 0o400);
    expect(wrongOf(await look(log, {}, 'log-unusable'))).toMatchObject([
      { status: 'critical', message: expect.stringContaining('the log cannot be written: EACCES') },
    ]);
  },
);

test('a message that is on its way for an hour is told of, with its channel and why', async () => {
  const log = await open();
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'alerts-undelivered'));
  const at = NOW - 59 * MINUTE;
  await log.store.deliveries.add([{ kind: 'alert', channel: 'mail', body: '{}', at }]);
  expect(await of({ at: NOW + HOUR })).toEqual([]);
  for (const { id } of await log.store.deliveries.claim(at, at, 9)) {
    await log.store.deliveries.postpone(id, NOW + HOUR, 'connection refused');
  }
  expect(await of()).toEqual([]);
  expect(await of({ at: NOW + MINUTE })).toEqual([
    { subject: 'alerts', status: 'warning', message: '1 message to mail not delivered for 1h: connection refused' },
  ]);
  expect(await of({ at: NOW + MINUTE, checks: { alertsUndelivered: 2 * HOUR } })).toEqual([]);
});
