import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { running, type WrittenLog, type WrittenRun, writeLog } from '../../support/written-log.ts';

/** When its screens are looked at. */
export const nowMs = Date.parse('2026-11-03T14:05:00Z');

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const wide = 'hourly/日本語の名前のとても長いスクリプト';
const emoji = 'hourly/sync-👩‍👩‍👧-photos';
const long =
  'hourly/import-orders-of-a-supplier-with-a-very-long-name-that-nobody-types-without-completion-but-that-somebody-has';

/** Names as they are: short and long ones, wide characters, and as many as a large site has. */
const hourly = ['hourly/clean-uploads', 'hourly/import-orders', emoji, wide, long];
const customers = Array.from({ length: 54 }, (_, index) => `daily/customer-${String(index + 1).padStart(3, '0')}`);

export interface BusySite {
  readonly root: string;
  readonly log: WrittenLog;
}

/** A root with sixty scripts that have run for some days, and a queue: the same in each run of the tests. */
export async function writeBusySite(): Promise<BusySite> {
  const scripts = [...hourly, ...customers, 'weekly/report'];
  const root = makeTemporaryRoot({
    ...Object.fromEntries(scripts.map((name) => [`jobs/${name}.sh`, 'true\n'])),
    'jobs/hourly/import-orders.sh':
      '# @description Takes new orders into the books, and tells the shop which of them could not be read.\n' +
      '# @timeout 10m\n# @retries 3\n# @retry-delay 10m\n# @max-rss 400mb\n# @env SHOP_TOKEN SHOP_ADDRESS\ntrue\n',
    'jobs/hourly/wrong.sh': '# @timeout soon\n# @retires 3\ntrue\n',
    'jobs/hourly/notes-of-last-summer.txt': 'text\n',
    'jobs/15min/.keep': '',
    'jobs/queue/mail/welcome.sh': executable('#!/bin/sh\ntrue\n'),
    'jobs/queue/export.sh': executable('#!/bin/sh\ntrue\n'),
  });
  const log = await writeLog(root);
  for (let hour = 30; hour > 0; hour -= 1) await writeHour(log, nowMs - hour * HOUR_MS + 2 * MINUTE_MS, hour);
  for (const days of [2, 1]) await writeDay(log, nowMs - days * 24 * HOUR_MS);
  await writeNow(log);
  return { root, log };
}

/** One that was missed, and one that was skipped. */
async function writeHour(log: WrittenLog, at: number, hour: number): Promise<void> {
  if (hour === 7) return;
  if (hour === 4) {
    await log.addPass('hourly', at, {
      state: 'skipped',
      reason: 'another pass of hourly was running: pid 4711 on web2',
    });
    return;
  }
  const pass = await log.addPass('hourly', at);
  if (hour === 1) await log.addRun('hourly/wrong', at, { worker_id: pass, claim_number: 9, ...notStarted });
  for (const [index, script] of hourly.entries()) {
    const duration = 40 * 3 ** index + ((hour * 7919) % 97);
    await log.addRun(script, at + index, {
      ...{
        worker_id: pass,
        claim_number: index + 1,
        duration_us: duration * 1000,
        max_rss_bytes: (index + 3) * 7_654_321,
      },
      ...(script === 'hourly/import-orders' && hour <= 3 && failure),
    });
  }
}

const failure: WrittenRun = {
  ...{ outcome: 'failed', exit_code: 1, reason: 'exit code 1: Error: orders.csv:3 has not 3 columns' },
  ...{ error_name: 'Error', error_message: 'orders.csv:3 has not 3 columns, but 2: "日本;42"' },
};

const notStarted: WrittenRun = {
  outcome: 'not-started',
  duration_us: null,
  reason: 'jobs/hourly/wrong.sh:1: @timeout …',
};

async function writeDay(log: WrittenLog, at: number): Promise<void> {
  const pass = await log.addPass('daily', at);
  for (const [index, script] of customers.entries()) {
    const own = { worker_id: pass, claim_number: index + 1, duration_us: 1000 * (1234 + index * 567) };
    const timedOut: WrittenRun = { outcome: 'timed-out', reason: 'timed out after 1h (limit 1h), ended with SIGTERM' };
    await log.addRun(script, at + index, { ...own, ...(index % 11 === 5 && timedOut) });
  }
}

/** What goes on now is on another machine: of that, only its sign of life tells. */
async function writeNow(log: WrittenLog): Promise<void> {
  const begun = nowMs - 4 * MINUTE_MS;
  const pass = await log.addPass('weekly', begun, { state: 'running', pid: 4711 });
  await log.addRun('weekly/report', begun, { ...running, worker_id: pass, pid: 4711, max_rss_bytes: 123_456_789 });
  log.change("update hosts set host = 'web2', boot_id = 'another'");
  writeIncidents(log);
}

function writeIncidents({ change }: WrittenLog): void {
  const insert = (row: Readonly<Record<string, string | number>>) =>
    change(
      `insert into incidents (${Object.keys(row).join(', ')}) values (${Object.keys(row)
        .map(() => '?')
        .join(', ')})`,
      ...Object.values(row),
    );
  const openedAt = nowMs - 3 * HOUR_MS;
  insert({
    ...{ subject: 'hourly/import-orders', code: 'script-failing', fingerprint: 'one', severity: 'warning' },
    ...{
      opened_at: openedAt,
      last_at: nowMs - HOUR_MS,
      occurrences: 3,
      last_run_id: 138,
      message: 'orders.csv:3 has not 3 columns',
    },
  });
  insert({
    ...{ subject: long, code: 'script-overdue', fingerprint: '', severity: 'critical' },
    ...{ opened_at: openedAt, last_at: nowMs, occurrences: 12, message: `${long} has not run since 3 Nov 11:02` },
    hint: 'Run `npx folder-runner why` with its name: it tells what keeps it from running, and what to do about that.',
  });
}
