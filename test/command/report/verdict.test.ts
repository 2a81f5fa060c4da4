import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { addSettledRun, HOUR, MINUTE, NOW } from '../../support/alerts.ts';
import { callAt, commandPath, cronEnv, pathWithoutCrontab } from '../../support/command.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { pretendLongUptime } from '../../support/uptime.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';

pretendLongUptime();

const files = {
  ...{ 'jobs/hourly/a.sh': 'true\n', 'jobs/hourly/b.sh': 'true\n', 'jobs/hourly/c.sh': 'true\n' },
  ...{ 'jobs/by-hand/tool.sh': 'true\n', 'jobs/queue/mail.sh': 'true\n' },
};

const failed = { outcome: 'failed', reason: 'exit code 7' } as const;

interface Case {
  /** Default: nothing happened but a pass, a minute ago. */
  readonly make?: (log: WrittenLog, root: string) => unknown;
  readonly level: 'good' | 'waiting' | 'paused' | 'warning' | 'bad';
  readonly title: string;
  /** Of `check`. */
  readonly exit: number;
}

const failTwice = async (log: WrittenLog) => {
  await addSettledRun(log, 'hourly/a', NOW - 3 * HOUR, failed);
  await addSettledRun(log, 'hourly/b', NOW - 2 * HOUR, failed);
};
const acknowledgeAll = (log: WrittenLog) => log.change('update incidents set acknowledged_at = ?', NOW - MINUTE);
const pauseAll = (log: WrittenLog) =>
  log.store.pauses.set({ name: '*', kind: 'pause', until: null, createdAt: NOW - HOUR, by: null });

const cases: Readonly<Record<string, Case>> = {
  'a site without trouble': { level: 'good', title: 'Everything is well', exit: 0 },
  'scripts that fail on a schedule': { make: failTwice, level: 'bad', title: '2 scripts are failing', exit: 2 },
  'failures that somebody knows of': {
    make: async (log) => {
      await failTwice(log);
      acknowledgeAll(log);
    },
    ...{ level: 'warning', title: 'Nothing new is wrong', exit: 1 },
  },
  'a new failure beside one that somebody knows of': {
    make: async (log) => {
      await addSettledRun(log, 'hourly/a', NOW - 3 * HOUR, failed);
      acknowledgeAll(log);
      await addSettledRun(log, 'hourly/b', NOW - 2 * HOUR, failed);
    },
    ...{ level: 'bad', title: '1 script is failing', exit: 2 },
  },
  'a script that somebody calls by hand': {
    make: (log) => addSettledRun(log, 'by-hand/tool', NOW - HOUR, failed),
    ...{ level: 'warning', title: '1 script is failing', exit: 1 },
  },
  'a handler': {
    make: (log) => addSettledRun(log, 'queue/mail', NOW - MINUTE, failed),
    ...{ level: 'warning', title: '1 script is failing', exit: 1 },
  },
  'a success with a warning': {
    make: async (log) => {
      await addSettledRun(log, 'hourly/a', NOW - HOUR, failed);
      log.change(`update incidents set code = 'script-suspect'`);
    },
    ...{ level: 'warning', title: '1 thing to look at, nothing has failed', exit: 1 },
  },
  'a script that is to be tried again': {
    make: async (log) => {
      await addSettledRun(log, 'hourly/a', NOW - HOUR, { ...failed, left_job: 'retrying' });
      log.change(`update jobs set state = 'retrying', finished_at = null, run_at = ?`, NOW + MINUTE);
    },
    ...{ level: 'waiting', title: '1 script failed and will be tried again', exit: 0 },
  },
  'a pause of everything': { make: pauseAll, level: 'paused', title: 'Everything is paused', exit: 0 },
  'a failure while everything is paused': {
    make: async (log) => {
      await failTwice(log);
      await pauseAll(log);
    },
    ...{ level: 'bad', title: '2 scripts are failing', exit: 2 },
  },
  'a part of the runner': {
    make: ({ state }) => writeFileSync(`${state.database}.broken-20271102-101112`, ''),
    ...{ level: 'warning', title: 'Something is wrong', exit: 1 },
  },
  'wrong settings': {
    make: (_, root) => writeFileSync(join(root, 'runner.config.json'), '{ "nope": 1 }'),
    ...{ level: 'bad', title: 'No script starts until the settings are fixed', exit: 3 },
  },
  'a log that cannot be read': {
    make: async (log) => {
      await log.store.close();
      writeFileSync(log.state.database, 'no database at all'.repeat(500));
    },
    ...{ level: 'bad', title: 'The activity log cannot be read', exit: 3 },
  },
};

const env = (root: string) => ({ ...cronEnv(root), PATH: pathWithoutCrontab, TZ: 'UTC', COLUMNS: '110' });

async function ask(root: string, environment: NodeJS.ProcessEnv = env(root)) {
  const call = (...args: readonly string[]) => callAt(args, { cwd: root, env: environment }, NOW);
  const { verdict, troubles } = JSON.parse((await call('status', '--json')).stdout);
  const [first] = (await call('status')).stdout.split('\n');
  return { verdict, troubles, first, exit: (await call('check')).status };
}

test.each(Object.entries(cases))('%s: status and the exit code of check agree', async (_, { make, ...expected }) => {
  const root = makeTemporaryRoot(files);
  const log = await writeLog(root);
  await log.addPass('hourly', NOW - MINUTE);
  await make?.(log, root);
  const { verdict, first, exit } = await ask(root);
  expect({ level: verdict.level, title: verdict.title, exit }).toEqual(expected);
  expect(first?.split(' · ')[0]).toBe(expected.title);
});

test('where nothing ever ran, that is the answer, with and without a log', async () => {
  const root = makeTemporaryRoot(files);
  const nothing = { level: 'waiting', title: 'Nothing has run yet', isUntouched: true, lastPass: null };
  expect(await ask(root)).toMatchObject({ verdict: nothing, exit: 3 });
  await writeLog(root);
  expect(await ask(root)).toMatchObject({ verdict: nothing, exit: 0 });
});

test('the worst trouble comes first, what is known last, and three with one cause are counted as one', async () => {
  const root = makeTemporaryRoot(files);
  const log = await writeLog(root);
  await log.addPass('hourly', NOW - MINUTE);
  await addSettledRun(log, 'by-hand/tool', NOW - 4 * HOUR, { outcome: 'failed', reason: 'exit code 9' });
  log.change('update incidents set acknowledged_at = ?', NOW);
  for (const [index, name] of ['a', 'b', 'c'].entries()) {
    await addSettledRun(log, `hourly/${name}`, NOW - (3 - index) * HOUR, failed);
  }
  log.change(`insert into incidents (subject, code, severity, opened_at, last_at, message)
    values ('hourly', 'tier-overdue', 'critical', ${NOW}, ${NOW}, 'it was not called')`);
  const { troubles, verdict } = await ask(root);
  const shown = troubles.map(({ subject, grade, cause }: Record<string, unknown>) => ({ subject, grade, cause }));
  expect(shown).toEqual([
    { subject: 'hourly', grade: 'critical', cause: null },
    ...['c', 'b', 'a'].map((name) => ({ subject: `hourly/${name}`, grade: 'failing', cause: 1 })),
    { subject: 'by-hand/tool', grade: 'acknowledged', cause: null },
  ]);
  expect(verdict).toMatchObject({ since: new Date(NOW - 3 * HOUR).toISOString() });
  expect(troubles[1]).toMatchObject({ message: 'exit code 7', occurrences: 1, run: expect.any(Number) });
});

test('a tier whose calls come is no trouble, whatever the crontab says; three missed calls are critical', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const log = await writeLog(root);
  await log.addPass('hourly', NOW - 20 * MINUTE);
  const withoutLines = { ...env(root), ...makeFakeCrontab().env };
  expect(await ask(root, withoutLines)).toMatchObject({ verdict: { level: 'good' }, exit: 0 });
  log.change('update workers set started_at = started_at - ?', 3 * 24 * HOUR);
  const { verdict, troubles, exit } = await ask(root, withoutLines);
  expect({ verdict, exit }).toMatchObject({ verdict: { level: 'bad', title: 'Something is wrong' }, exit: 2 });
  expect(troubles).toMatchObject([{ code: 'tier-overdue', grade: 'critical', subject: 'hourly' }]);
});

test('a tier whose crontab line rests at night is not overdue until its line says so', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const log = await writeLog(root);
  await log.addPass('hourly', NOW - 5 * HOUR);
  const crontab = makeFakeCrontab();
  const withLine = async (times: string) => {
    crontab.write(`CRON_TZ=UTC\n${times} node ${commandPath} --root ${root} hourly\n`);
    return await ask(root, { ...env(root), ...crontab.env });
  };
  const later = `0 ${new Date(NOW + 3 * HOUR).getUTCHours()} * * *`;
  expect(await withLine(later)).toMatchObject({ verdict: { level: 'good' }, exit: 0 });
  expect(await withLine('0 * * * *')).toMatchObject({ verdict: { level: 'bad' }, exit: 2 });
});
