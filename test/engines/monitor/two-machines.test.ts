import { expect, test } from 'vitest';
import { noteFindings } from '../../../src/monitor/alert/incidents.ts';
import { tellIncidents } from '../../../src/monitor/alert/tell.ts';
import { closeHours } from '../../../src/monitor/metrics/hours.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import type { Store } from '../../../src/store/store.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openStoreOf } from '../../support/store.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';

const HOUR = 3_600_000;
const NOON = Date.UTC(2026, 10, 3, 12);

/** A log that several have open. */
async function openTwice(): Promise<WrittenLog & { readonly root: string; readonly stores: readonly Store[] }> {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  return { ...log, root, stores: [log.store, await openStoreOf(root), await openStoreOf(root)] };
}

test('an hour that several close at once is counted once', async () => {
  const { root, stores, addRun } = await openTwice();
  for (let run = 0; run < 6; run += 1)
    await addRun('hourly/a', NOON + run * HOUR, { finished_at: NOON + run * HOUR + 5 });
  const now = () => NOON + 7 * HOUR;
  await Promise.all(stores.map((store) => closeHours(store, now, 60_000)));
  const counted = queryLog<{ hour: number; ended: number }>(root, 'select "hour", ended from metrics order by "hour"');
  expect(counted).toEqual(Array.from({ length: 6 }, (_, run) => ({ hour: NOON + run * HOUR, ended: 1 })));
  expect(queryLog(root, `select times from counters where what = 'succeeded'`)).toEqual([{ times: 6 }]);
});

test('a row that goes while its hour is closed is counted once', async () => {
  const { root, stores, addRun } = await openTwice();
  for (let run = 0; run < 5; run += 1) await addRun('queue/mail', NOON + run * HOUR);
  const [one, other] = stores as [Store, Store];
  const now = () => NOON + 6 * HOUR;
  const ids = queryLog<{ id: number }>(root, 'select id from jobs').map(({ id }) => id);
  await Promise.all([
    closeHours(one, now, 60_000),
    ...ids.map((id) => other.transaction((session) => session.jobs.delete([id]))),
  ]);
  await closeHours(one, now, 60_000);
  expect(queryLog(root, `select times from counters where what = 'succeeded'`)).toEqual([{ times: 5 }]);
  expect(queryLog(root, 'select id from uncounted')).toEqual([]);
});

test('what several find at once is one incident, of which a channel is told once', async () => {
  const { root, stores } = await openTwice();
  const finding = { code: 'tier-overdue', subject: 'hourly', status: 'critical', message: 'late', hint: null } as const;
  const note = (store: Store) => store.transaction((session) => noteFindings(session, [finding], NOON));
  await Promise.all(stores.map(note));
  expect(queryLog(root, 'select subject, occurrences from incidents')).toEqual([{ subject: 'hourly', occurrences: 3 }]);
  const channel = { name: 'ops', kind: 'command', target: 'true', options: {}, severity: null, tags: [] } as const;
  const settings = { ...defaultSettings, alerts: { ...defaultSettings.alerts, channels: [channel] } };
  const runner = { root, settings, now: () => NOON + 1 };
  await Promise.all(stores.map((store) => tellIncidents(store, { runner, prints: false })));
  expect(queryLog(root, 'select kind, channel from deliveries')).toEqual([{ kind: 'alert', channel: 'ops' }]);
});

test('each message is sent by one of those who would send it', async () => {
  const { stores } = await openTwice();
  const messages = Array.from({ length: 9 }, (_, at) => ({ kind: 'ping', channel: `${at}`, body: '{}', at }) as const);
  await stores[0]?.deliveries.add(messages);
  const claim = (store: Store) => store.transaction(({ deliveries }) => deliveries.claim(NOON, NOON + HOUR, 4));
  const claimed: string[] = [];
  for (let found = 1; found > 0; ) {
    const rows = (await Promise.all(stores.map(claim))).flat();
    found = rows.length;
    claimed.push(...rows.map((row) => row.channel));
  }
  expect(claimed.toSorted()).toEqual(messages.map((message) => message.channel));
});
