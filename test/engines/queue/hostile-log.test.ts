import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { deliverDue } from '../../../src/monitor/alert/deliver.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { type LogColumn, logTables } from '../../../src/store/move/rows.ts';
import { checkLiveness, identifyProcess, type ProcessIdentity } from '../../../src/system/process/identity.ts';
import { pruneLog } from '../../../src/worker/pass/prune-log.ts';
import { reconcile } from '../../../src/worker/recovery/reconcile.ts';
import { channelOf, messageOf, serve } from '../../support/alerts.ts';
import { inRoot } from '../../support/command.ts';
import { engine, type LogConnection } from '../../support/engines/engines.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall } from '../../support/run.ts';
import { openReadApi } from '../../support/web/dashboard.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';

/** What another machine's database user can reach in this log: every value of every table. */
interface Attack {
  readonly root: string;
  readonly log: WrittenLog;
  readonly values: readonly string[];
  /** Files of the user which no log is about, each with its content. */
  readonly files: readonly string[];
  /** Processes of the user which no log is about. */
  readonly processes: readonly ProcessIdentity[];
  /** The server of a stranger, which nothing but the log names. */
  readonly stranger: { readonly url: string; readonly asked: readonly object[] };
}

const NOW = Date.now();
const SECRET = 'not for the eyes of others';

async function prepare(): Promise<Attack> {
  const stranger = await serve();
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\n'),
    'jobs/queue/mail.sh': executable('#!/bin/sh\n'),
    'mine/x.log.gz': SECRET,
    'mine/x.log': SECRET,
    'mine/x.json': SECRET,
    'mine/authorized_keys': SECRET,
    'decoy/run.sh': executable('#!/bin/sh\ntouch "${0%/*}/../ran"\n'),
  });
  const mine = join(root, 'mine');
  const ran = join(root, 'ran');
  const values = [
    ...[stranger.url, '$STRANGE', `file://${mine}/x.log`],
    JSON.stringify(messageOf({ subject: stranger.url, command: `touch ${ran}` })),
    ...['../../mine/x.log.gz', join(mine, 'x.log.gz'), '../../mine/x', '../../mine', join(mine, 'authorized_keys')],
    ...['../../decoy/run', join(root, 'decoy/run.sh')],
    ...[`$(touch ${ran})`, `; touch ${ran} #`, `\`touch ${ran}\``, `| touch ${ran}`, `'; drop table jobs; --`],
    ...[JSON.stringify({ url: stranger.url, state: 'fail', runId: 'r', text: 't' })],
    ...[JSON.stringify({ to: 'spam@example.org', subject: 's', text: { path: join(mine, 'x.log') }, html: '' })],
    ...['\u001b]0;owned\u0007\u001b[31m\u009b31m\u202e\r\n', '-rf', '__proto__', 'constructor', 'x'.repeat(100_000)],
  ];
  const log = await writeLog(root);
  const processes = [startSleep(), identifyProcess(process.pid)];
  await fill(log, values.length, processes[0] as ProcessIdentity);
  const files = readdirSync(mine).map((name) => join(mine, name));
  return { root, log, values, files, processes, stranger };
}

function startSleep(): ProcessIdentity {
  const child = spawn('/bin/sleep', ['300'], { detached: true, stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  return identifyProcess(child.pid as number);
}

/** As many rows of each kind as there are values, so that each value stands in each column. */
async function fill(log: WrittenLog, rows: number, victim: ProcessIdentity): Promise<void> {
  for (let row = 0; row < rows; row += 1) {
    const at = NOW - 3_600_000 - row * 1_000;
    const output = { output: 'out', output_file: '1.1.log.gz', output_file_bytes: 5, reason: 'r', error_message: 'm' };
    await log.addRun(`hourly/s${row}`, at, { outcome: 'failed', exit_code: 1, ...output });
    // A run that its worker seems to have left behind, as a process of the user's own.
    const pass = await log.addPass('hourly', at, { state: 'crashed' });
    const run = { outcome: 'running', worker_id: pass, pid: victim.pid, timeout_ms: 1 } as const;
    await log.addRun(`hourly/lost${row}`, 1_000, run);
    for (const kind of ['alert', 'ping', 'report', 'alert']) {
      const add = `insert into deliveries (kind, channel, body, created_at, due_at) values (?, 'any', '{}', ?, 0)`;
      log.change(add, kind, NOW);
    }
    const open = `insert into incidents (subject, code, severity, opened_at, last_at) values (?, 'script-failing', 'warning', ?, ?)`;
    log.change(open, `hourly/s${row}`, at, at);
    log.change(`insert into events (at, event, detail) values (?, 'paused', 'x')`, at);
    log.change(`insert into jobs (name, data) values (?, '{}')`, `mail?${row}`);
  }
  // Started in the first second of 1970, so that no limit of time protects them.
  log.change('update runs set started_at = 1000, pid_start_ticks = null where finished_at is null');
}

/** Columns that say what a row is: with another word in them no reader would look at the others. */
const words = new Set([
  ...['state', 'outcome', 'left_job', 'kind', 'triggered_by', 'measured_by', 'missed_policy', 'on_child_failure'],
  ...['severity', 'permission', 'what', 'measure', 'claim_token', 'event', 'host', 'jobs.tier'],
]);

function isPoisoned(table: string, { name, kind }: LogColumn): boolean {
  return kind === 'text' && !words.has(name) && !words.has(`${table}.${name}`);
}

/** Each text of the row with the number n becomes the value n, where the tables let it. */
async function poison({ root, values }: Attack): Promise<number> {
  let poisoned = 0;
  const log = engine.connect(root, 'lie');
  if (engine.name === 'sqlite') log.change('pragma synchronous = off');
  for (const { name: table, columns, key } of logTables) {
    if (!key.includes('id') && !key.includes('run_id')) continue;
    const id = key.includes('id') ? 'id' : 'run_id';
    const numbers = log.all<{ id: number }>(`select ${id} as id from ${table} order by ${id}`).map((row) => row.id);
    for (const { name } of columns.filter((column) => isPoisoned(table, column))) {
      const rows = numbers.map((number, index) => ({ number, value: values[index % values.length] as string }));
      poisoned += poisonRows(log, `update ${table} set ${name} = ? where ${id}`, rows);
    }
  }
  // Of the user's own channel all but the name is the attacker's.
  log.change(`update deliveries set channel = 'own' where kind = 'alert' and id % 4 = 0`);
  log.close();
  return poisoned;
}

/** @returns how many rows took their value: it may be too long, or not unique */
function poisonRows(log: LogConnection, update: string, rows: readonly { number: number; value: string }[]): number {
  let poisoned = 0;
  for (const value of new Set(rows.map((row) => row.value))) {
    const numbers = rows.filter((row) => row.value === value).map(({ number }) => number);
    try {
      poisoned += log.change(`${update} in (${numbers})`, value);
    } catch {}
  }
  return poisoned;
}

function expectUnharmed({ root, files, processes, stranger }: Attack): void {
  expect(files.map((path) => [path, existsSync(path) && readFileSync(path, 'utf8')])).toEqual(
    files.map((path) => [path, SECRET]),
  );
  expect(existsSync(join(root, 'ran'))).toBe(false);
  expect(processes.map(checkLiveness)).toEqual(processes.map(() => 'alive'));
  expect(stranger.asked).toEqual([]);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must not be there
const commanding = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/;

test('whatever others write into the log, nothing of it is run, ended, deleted, sent or obeyed', async () => {
  const attack = await prepare();
  const { root, log } = attack;
  expect(await poison(attack)).toBeGreaterThan(100);
  const own = await serve();
  const alerts = { ...defaultSettings.alerts, channels: [channelOf({ name: 'own', kind: 'webhook', url: own.url })] };
  const call = await makeLoggedCall(root, { alerts });
  const environment = { STRANGE: attack.stranger.url, SMTP_URL: '', PATH: '' };
  const runner = { ...call.runner, environment };

  for (const command of [
    'status',
    'report',
    'report --json',
    'activity',
    'incidents',
    'jobs',
    'metrics',
    'list',
    'check',
  ]) {
    const { stdout, stderr } = await inRoot(root, ...command.split(' '));
    expect([command, commanding.exec(stdout + stderr)]).toEqual([command, null]);
  }
  const runs = engine.connect(root, 'read');
  const ids = runs.all<{ id: number }>('select id from runs order by id').map(({ id }) => id);
  runs.close();
  for (const id of ids.slice(0, attack.values.length)) {
    const { stdout, stderr } = await inRoot(root, 'show', String(id), '--full');
    expect([id, commanding.exec(stdout + stderr), stdout.includes(SECRET)]).toEqual([id, null, false]);
  }
  const api = openReadApi(root);
  for (const path of ['overview', 'runs', 'jobs', 'jobs?search=touch', 'activity', 'incidents', 'workers', 'tiers']) {
    expect(await api.text(`/api/${path}`)).not.toContain(SECRET);
  }
  for (const id of ids.slice(0, attack.values.length)) {
    expect(await api.text(`/api/runs/${id}/output`)).not.toContain(SECRET);
  }
  expectUnharmed(attack);

  await deliverDue({ runner, store: log.store, stop: new AbortController().signal });
  expect(own.asked.length, 'messages of the own channel').toBeGreaterThan(0);
  await reconcile(runner, log.store, NOW);
  expectUnharmed(attack);
  expect(engineRows(root, `select id from runs where outcome = 'running'`)).toEqual([]);

  // Both are processes of the real command, which run what is due.
  for (const pass of ['hourly', 'work']) expect((await inRoot(root, pass)).status).toBeLessThan(3);
  expectUnharmed(attack);
  const jobs = engineRows(root, 'select id from jobs where tier is null order by id') as { id: number }[];
  expect(jobs.length).toBeGreaterThan(0);
  for (const { id } of jobs.slice(0, 5)) await inRoot(root, 'job', String(id), 'delete');
  const nothing = { succeededMs: 0, failedMs: 0, maxDatabaseBytes: 1 };
  const keepsNothing = { ...runner, settings: { ...runner.settings, retention: nothing }, now: () => NOW + 86_400_000 };
  const worker = await log.addPass('hourly', NOW);
  for (let round = 0; round < 3; round += 1) await pruneLog(keepsNothing, log.store, worker);
  expect(engineRows(root, 'select id from runs where output_file is not null')).toEqual([]);
  expectUnharmed(attack);
});

function engineRows(root: string, sql: string): unknown[] {
  const log = engine.connect(root, 'read');
  try {
    return log.all(sql);
  } finally {
    log.close();
  }
}
