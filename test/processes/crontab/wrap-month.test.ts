import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { endWithNewline } from '../../../src/hosting/crontab/block.ts';
import { runCommand } from '../../support/command.ts';
import { preload } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { type FakeCrontab, makeFakeCrontab } from '../../support/root.ts';
import { type CronEntry, readAsCron, runAsCron, runWrapped } from './as-cron.ts';
import { crontabNames, makeSandbox } from './sandbox.ts';

interface Wrapped {
  readonly line: number;
  readonly name: string | null;
  readonly after: string | null;
}

/** The minutes of November 2026 at which cron runs the lines, by its own reading of the five fields. */
function firingsOf(crontab: string): string[] {
  const nicknames: Record<string, string> = {
    ...{ '@hourly': '0 * * * *', '@daily': '0 0 * * *', '@midnight': '0 0 * * *', '@weekly': '0 0 * * 0' },
    ...{ '@monthly': '0 0 1 * *', '@yearly': '0 0 1 1 *', '@annually': '0 0 1 1 *' },
  };
  const names = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
  const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
  const fits = (field: string, value: number, words: readonly string[] = [], first = 0): boolean =>
    field.split(',').some((part) => {
      const [range = '', step = '1'] = part.split('/');
      const numbered = range.toLowerCase().replaceAll(/[a-z]+/g, (word) => String(words.indexOf(word) + first));
      const [from = '', to = part.includes('/') ? '999' : from] = numbered === '*' ? ['0', '999'] : numbered.split('-');
      return value >= Number(from) && value <= Number(to) && (value - Number(from)) % Number(step) === 0;
    });
  const fired: string[] = [];
  crontab.split('\n').forEach((line, index) => {
    const [, written = ''] = /^\s*-?(@\w+|(?:[^\s@#]\S*\s+){4}\S+)\s+\S/.exec(line) ?? [];
    const times = written.startsWith('@') ? nicknames[written] : written;
    if (times === undefined || times === '' || /^\s*\w+\s*=/.test(line)) return;
    const [minute = '', hour = '', day = '', month = '', weekday = ''] = times.split(/\s+/);
    for (let at = Date.UTC(2026, 10, 1); at < Date.UTC(2026, 11, 1); at += 60_000) {
      const date = new Date(at);
      const isDay = fits(day, date.getUTCDate());
      const isWeekday = fits(weekday, date.getUTCDay(), days) || (date.getUTCDay() === 0 && fits(weekday, 7, days));
      const isToday = day.startsWith('*') || weekday.startsWith('*') ? isDay && isWeekday : isDay || isWeekday;
      const isTime = fits(minute, date.getUTCMinutes()) && fits(hour, date.getUTCHours());
      if (isToday && isTime && fits(month, date.getUTCMonth() + 1, names, 1))
        fired.push(`${date.toISOString()} ${index}`);
    }
  });
  return fired.sort();
}

interface ImportedLine {
  readonly line: number;
  readonly script: string | null;
  readonly notes: readonly string[];
}

interface RecordedRun {
  readonly script: string;
  readonly started_at: number;
  readonly exit_code: number;
  readonly output: string;
}

interface Firing {
  /** 2026-11-01T03:15:00.000Z */
  readonly at: string;
  /** Counted from 1. */
  readonly line: number;
}

/** All twenty have 290,000 runs a month. A crontab has each of its runs if they are not more than this. */
const FEW = 40;
/** The first one, the last one, and one between. */
const TIMES_OF_A_LINE = 3;

/** Runs of a month, in the order of their times. */
function chooseFirings(fired: readonly string[], lines: readonly number[]): Firing[] {
  const all = fired.map((firing): Firing => {
    const [at = '', index = ''] = firing.split(' ');
    return { at, line: Number(index) + 1 };
  });
  // The month begins with a boot; a line without any time in it runs then, too.
  const boot = lines.filter((line) => !all.some((firing) => firing.line === line));
  const begin: Firing[] = boot.map((line) => ({ at: '2026-11-01T00:00:00.000Z', line }));
  if (all.length <= FEW) return [...begin, ...all];
  const chosen = lines.flatMap((line) => {
    const own = all.filter((firing) => firing.line === line);
    const step = (own.length - 1) / (TIMES_OF_A_LINE - 1);
    return own.length <= TIMES_OF_A_LINE
      ? own
      : Array.from({ length: TIMES_OF_A_LINE }, (_, nth) => own[Math.round(nth * step)] as Firing);
  });
  return [...begin, ...chosen.sort((one, other) => one.at.localeCompare(other.at) || one.line - other.line)];
}

/** As cron at that time: the commands' `date` and the runner have its clock. */
function atTime(entries: readonly CronEntry[], { at, line }: Firing): CronEntry {
  const entry = entries.find((each) => each.line === line) as CronEntry;
  const FAULT_CLOCK = `${Date.parse(at) - Date.now()} from 0`;
  const clock = { CLOCK: at, FAULT_CLOCK, NODE_OPTIONS: `--require=${preload}` };
  return { ...entry, variables: { ...entry.variables, ...clock } };
}

const withoutClock = (calls: readonly string[]) => calls.map((call) => call.replace(/^FAULT_CLOCK=.*$/m, ''));

const latin1Of = (crontab: FakeCrontab): string => crontab.read()?.toString('latin1') ?? '';

describe('Twenty crontabs, wrapped', () => {
  test.each(crontabNames)(
    `%s: a month of a moved clock, of ${TIMES_OF_A_LINE} times for each line, has exactly the runs of cron, and undone it is the same byte for byte`,
    (name) => {
      const sandbox = makeSandbox(name);
      const isSystem = name === 'certbot';
      // A user's own crontab has no users.
      const text = isSystem ? sandbox.crontab.replaceAll(/^(\S+(?:\s+\S+){4}\s+)\S+ /gm, '$1') : sandbox.crontab;
      const before = Buffer.from(text, 'latin1');
      const lines = readAsCron(text, false);
      const fired = firingsOf(text);
      const month = chooseFirings(
        fired,
        lines.map(({ line }) => line),
      );
      const wanted = month.map((firing) => {
        const ran = runAsCron(atTime(lines, firing), sandbox.home);
        return { ...firing, ...ran, calls: withoutClock(sandbox.takeCalls()) };
      });
      const wantedFiles = sandbox.readFiles();
      sandbox.reset();

      const root = join(sandbox.home, 'runner');
      mkdirSync(join(root, 'jobs'), { recursive: true });
      const crontab = makeFakeCrontab();
      crontab.write(before);
      const place = { cwd: root, env: { ...crontab.env, HOME: sandbox.home } };
      const dry = runCommand(['cron', '--import', '--wrap', '--dry-run', '--json'], place);
      expect(dry).toMatchObject({ status: 0, stderr: '' });
      expect(crontab.read()).toEqual(before);
      expect(runCommand(['cron', '--import', '--wrap'], place)).toMatchObject({ status: 0, stderr: '' });
      const planned: readonly Wrapped[] = JSON.parse(dry.stdout).lines;
      const nameOf = (line: number) => planned.find((plan) => plan.line === line)?.name ?? null;
      const wrapped = latin1Of(crontab);
      expect(firingsOf(wrapped)).toEqual(fired);

      const after = readAsCron(wrapped, false);
      expect(after.map(({ line, variables, input }) => ({ line, variables, input }))).toEqual(
        lines.map(({ line, variables, input }) => ({ line, variables, input })),
      );
      for (const { at, line, status, output, calls } of wanted) {
        const ran = runWrapped(atTime(after, { at, line }), sandbox.home);
        const called = withoutClock(sandbox.takeCalls());
        expect({ at, line, status: ran.status, calls: called }).toEqual({ at, line, status, calls });
        if (nameOf(line) === null) expect(ran.output).toBe(output);
      }
      expect(sandbox.readFiles()).toEqual(wantedFiles);
      const isRecorded = planned.some((plan) => plan.name !== null);
      const select = 'select script, started_at, exit_code, output from runs order by id';
      const runs = isRecorded ? queryLog<RecordedRun>(root, select) : [];
      expect(runs.map((run) => ({ ...run, started_at: new Date(run.started_at).toISOString().slice(0, 16) }))).toEqual(
        wanted.flatMap(({ at, line, status, output }) => {
          const script = nameOf(line);
          return script === null ? [] : [{ script, started_at: at.slice(0, 16), exit_code: status, output }];
        }),
      );

      const original = join(root, '.runner/crontab.original');
      const planOf = (...args: string[]): readonly ImportedLine[] =>
        isRecorded ? JSON.parse(runCommand(['cron', '--import', ...args, '--json'], place).stdout).lines : [];
      const whole = planOf(original, '--format', 'crontab');
      for (const { line, name } of planned.filter((plan) => plan.name !== null)) {
        const [moved] = planOf(name ?? '', '--apply');
        const { notes: _, ...alone } = whole.find((each) => each.line === line) as ImportedLine;
        expect(moved).toMatchObject(alone);
        if (moved?.script == null) expect(moved?.notes).toEqual([expect.stringMatching(/\.$/)]);
        const isWrapped = new RegExp(`^[^#]* --overlap ${name?.slice('exec/'.length)} -- `, 'm').test(
          latin1Of(crontab),
        );
        expect({ name, isWrapped }).toEqual({ name, isWrapped: moved?.script == null });
      }
      expect(runCommand(['cron', '--undo'], place)).toMatchObject({ status: 0, stderr: '' });
      expect(crontab.read()).toEqual(endWithNewline(before));
      expect(readdirSync(sandbox.home)).not.toContain('.folder-runner');
      expect(existsSync(original)).toBe(false);
    },
    120_000,
  );
});
