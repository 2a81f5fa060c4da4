import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { renderChecks } from '../../../src/commands/monitor/check.ts';
import { renderPlans } from '../../../src/commands/run/dry-run.ts';
import { drawFailure, drawWork, PassView } from '../../../src/commands/run/progress.ts';
import { writeFindings } from '../../../src/commands/site/doctor.ts';
import { endUnmeasured, type RunEnd } from '../../../src/execution/result/result.ts';
import { readMetrics } from '../../../src/monitor/metrics/read-metrics.ts';
import { renderCosts } from '../../../src/report/terminal/metrics.ts';
import { createPalette, type Screen } from '../../../src/report/terminal/screen.ts';
import { createClock } from '../../../src/report/text/clock.ts';
import type { RunFinished } from '../../../src/worker/invocation/invocation.ts';
import type { PlannedRun } from '../../../src/worker/pass/plan-pass.ts';
import { callAt, cronEnv } from '../../support/command.ts';
import { makeFakeCrontab } from '../../support/root.ts';
import { nowMs, writeBusySite } from './busy-site.ts';

// How all screens look on narrow and wide terminals is kept in `screens/`, to be looked at. After a change that is
// meant: `npx vitest run test/command/report/screens.test.ts -u`, and look at what has changed.

const DAY_MS = 86_400_000;

const widths = [60, 80, 120, 200];

function screenOf(columns: number): Screen {
  return { columns, palette: createPalette(false), clock: createClock(nowMs, 'UTC'), nowMs };
}

/** Compares with what is kept; whatever is on it, no line is wider than the terminal. */
async function expectScreens(name: string, draw: (columns: number) => string | Promise<string>): Promise<void> {
  const sections: string[] = [];
  for (const columns of widths) {
    const text = await draw(columns);
    const tooWide = text.split('\n').filter((line) => stringWidth(line) > columns && !isForMachines(line));
    expect.soft(tooWide, `${name} at ${columns} columns`).toEqual([]);
    sections.push(`──── ${columns} columns ${'─'.repeat(columns - 18)}\n${text}`);
  }
  await expect.soft(sections.join('\n')).toMatchFileSnapshot(`./screens/${name}.txt`);
}

/** The first line of `runner check` is read by monitoring. */
const isForMachines = (line: string): boolean => line.startsWith('RUNNER ');

test('a site with sixty scripts, as all commands show it', async () => {
  const { root, log } = await writeBusySite();
  const crontab = makeFakeCrontab();
  crontab.write(
    '7 * * * * runner hourly\n0 4 * * * runner daily\n12 5 * * 0 runner weekly\n'.replaceAll(
      'runner',
      `npx folder-runner --root ${root}`,
    ),
  );
  const call = async (columns: number, ...args: readonly string[]): Promise<string> => {
    const env = { ...cronEnv(root), ...crontab.env, TZ: 'UTC', COLUMNS: String(columns) };
    const { stdout, stderr } = await callAt(args, { cwd: root, env }, nowMs);
    return (stderr + stdout).replaceAll(root, '/home/me/web/site1'.padEnd(root.length, '1').slice(0, root.length));
  };

  await call(80, 'pause', 'hourly/clean-uploads', '--for', '26h');
  log.change(`update pauses set actor = 'ada'`);
  log.change(`update events set actor = 'ada' where event = 'paused'`);
  await call(80, 'add', 'mail/welcome', '{"user":42,"name":"日本語 👩‍👩‍👧","address":"somebody@example.org"}');
  await call(80, 'add', 'mail/welcome', '{}', '--at', '2026-12-24 18:00', '--priority', '750');
  await call(80, 'add', 'export', '{}', '--repeat', 'daily at 02:30');
  await call(80, 'add', `import/${'a-name-that-is-as-long-as-some-are/'.repeat(3)}日本語`, '[1,2,3]');
  const screens = [
    ['list', ['list']],
    ['status', ['status']],
    ['next', ['next', '--for', '18h']],
    ['report', ['report', '--since', '24h', '--until', '2026-11-03 14:05']],
    ['report-tier', ['report', '--tier', 'hourly']],
    ['report-script', ['report', 'hourly/import-orders', '--limit', '12']],
    ['report-empty-tier', ['report', '--tier', '15min']],
    ['why', ['why', 'hourly/import-orders']],
    ['why-refused', ['why', 'jobs/hourly/wrong.sh']],
    ['show', ['show', '138']],
    ['jobs', ['jobs']],
    ['jobs-count', ['jobs', '--count']],
    ['jobs-upcoming', ['jobs', '--upcoming', '8']],
    ['job', ['job', '62']],
    ['incidents', ['incidents']],
    ['activity', ['activity', '--limit', '14']],
    ['metrics-script', ['metrics', 'hourly/import-orders']],
  ] as const;
  const window = { sinceMs: nowMs - 7 * DAY_MS, untilMs: nowMs };
  const metrics = await readMetrics(log.store, { period: '1d', ...window, nowMs, subjects: undefined });
  // How much CPU time there is depends on the host.
  await expectScreens('metrics', (columns) => renderCosts(metrics, 2, screenOf(columns)));
  for (const [name, args] of screens) await expectScreens(name, (columns) => call(columns, ...args));
});

describe('what depends on the host', () => {
  test('check', async () => {
    const findings = [
      {
        code: 'tier-overdue',
        status: 'critical',
        subject: 'hourly',
        message: 'hourly was to be called at 13:02, an hour ago',
        hint: '`npx folder-runner doctor` checks the crontab.',
      },
      {
        code: 'disk-full',
        status: 'warning',
        subject: 'disk',
        message: 'only 412 MB free on the disk of /home/me/site/.runner',
        hint: 'Delete files that are not needed, or set a shorter `retention` in the settings, which prunes the log.',
      },
      { code: 'jobs-waiting', status: 'ok', subject: 'queue', message: '3 jobs wait, the oldest for 2m', hint: null },
    ] as const;
    const figures = [{ label: 'jobs_waiting', value: 3, unit: '', warning: 100, critical: null }] as const;
    await expectScreens('check', (columns) =>
      renderChecks({ findings, figures, status: 'critical' }, screenOf(columns)),
    );
  });

  test('doctor', async () => {
    const all = [
      { code: 'Node', status: 'ok', message: 'v24.21.0, /usr/bin/node', hint: null },
      {
        code: 'crontab',
        status: 'critical',
        message: 'no line of the crontab calls hourly (5 scripts), daily (54 scripts)',
        hint: 'Write them: `npx folder-runner cron --install`, or paste what `npx folder-runner cron --print` shows into your panel.',
      },
      { code: 'disk', status: 'note', message: '412 MB free of 10 GB on /home (ext4)', hint: null },
      {
        code: 'limits',
        status: 'warning',
        message: 'at most 25 processes, and 18 are running',
        hint: 'Ask your host for more, or run fewer things at once.',
      },
    ] as const;
    await expectScreens('doctor', async (columns) => {
      const shown: string[] = [];
      const write = async (text: string): Promise<boolean> => shown.push(text) > 0;
      await writeFindings({ write }, '/home/me/site', all, screenOf(columns));
      return shown.join('');
    });
  });
});

const names = [
  'hourly/clean-uploads',
  'hourly/日本語の名前のとても長いスクリプト',
  'hourly/sync-👩‍👩‍👧-photos',
  'hourly/import-orders-of-a-supplier-with-a-very-long-name-that-nobody-types-without-completion-but-somebody-has',
  ...Array.from({ length: 56 }, (_, index) => `hourly/customer-${index + 1}`),
];

function ended(script: string, runId: number, end: Partial<RunEnd> = {}): RunFinished {
  const output = { text: '', bytes: 0, droppedBytes: 0, file: null, fileBytes: null };
  const usual = endUnmeasured({ outcome: 'succeeded', finishedAt: nowMs, durationMs: 1234, reason: null, output });
  return {
    key: script,
    script,
    runId,
    jobId: null,
    nextTryAt: null,
    end: { ...usual, maxRssBytes: 50_000_000, ...end },
  };
}

const printed = (text: string) => ({ text, bytes: text.length, droppedBytes: 0, file: null, fileBytes: null });

const ends = [
  ended(names[0] as string, 1),
  ended(names[1] as string, 2, { warning: '2 processes that it left behind are still running' }),
  ended(names[2] as string, 3, {
    ...{
      outcome: 'failed',
      reason: 'exit code 1: Error: the album "夏休み" could not be read: ECONNREFUSED 127.0.0.1:443',
    },
    error: {
      name: 'Error',
      message: '',
      stack: 'Error: …\n    at node:net:1\n    at sync (/home/me/site/jobs/hourly/sync.mjs:12:34)',
    },
  }),
  {
    ...ended(names[3] as string, 4, {
      ...{ outcome: 'timed-out', durationMs: 3_600_123, reason: 'timed out after 1h (limit 1h), ended with SIGTERM' },
      output: printed(
        Array.from({ length: 30 }, (_, line) => `line ${line} of the import ${'日本'.repeat(line)}`).join('\n'),
      ),
    }),
    nextTryAt: nowMs + 600_000,
  },
  ended(names[4] as string, 5, {
    outcome: 'not-started',
    durationMs: null,
    maxRssBytes: null,
    reason: 'interpreter not found: php',
  }),
];

test('a pass shows its progress and then its result', async () => {
  await expectScreens('pass', (columns) => {
    const view = new PassView({ tier: 'hourly', scripts: names, hasScripts: true }, 0);
    for (const name of names) view.setUsual(name, 2_500);
    const room = screenOf(columns);
    const lines = ends.flatMap((run) => {
      view.start(run, 0);
      view.end(run);
      return view.drawEnd(run, room);
    });
    view.start({ key: 'x', script: names[5] as string }, 60_000);
    const running = view.drawRunning(room, 61_500);
    return `${[...lines, ...running, '', '… and when it has ended:', ...view.drawSummary(room, 200_000)].join('\n')}\n`;
  });
});

test('one script by hand, below what it has printed', async () => {
  await expectScreens('run', (columns) => {
    const [, , failed] = ends;
    const view = new PassView({ tier: 'hourly', scripts: [names[2] as string], hasScripts: true }, 0);
    view.end(failed as RunFinished);
    const room = screenOf(columns);
    return `${[...view.drawEnd(failed as RunFinished, room, false), ...view.drawSummary(room, 1_500)].join('\n')}\n`;
  });
});

test('the queue, as it is worked off', async () => {
  await expectScreens('work', (columns) => {
    const room = screenOf(columns);
    const failed = {
      ...ended('queue/mail/welcome', 7, {
        outcome: 'failed',
        reason: 'exit code 3',
        output: printed('no such user: 42\n'),
      }),
      jobId: 12,
    };
    const work = {
      succeeded: 1234,
      failed: 1,
      released: 2,
      stopped: 0,
      running: ['queue/mail/welcome', 'queue/日本語の名前のハンドラー'],
      elapsedMs: 65_000,
    };
    return `${[...drawFailure(failed, room), drawWork(work, room)].join('\n')}\n`;
  });
});

test('a dry run', async () => {
  const plan = (script: string, fields: Partial<PlannedRun> = {}): PlannedRun => ({
    ...{ script, fate: 'runs', why: null, attempt: 1, timeoutMs: 3_600_000, usualDurationMs: 41_000 },
    command: ['/bin/sh', `/home/me/site/jobs/${script}.sh`],
    environment: {
      PATH: '/usr/bin:/bin',
      RUNNER_ROOT: '/home/me/site',
      RUNNER_SCRIPT: script,
      RUNNER_RUN: null,
      RUNNER_TMPDIR: null,
    },
    ...fields,
  });
  const until = { untilMs: nowMs + 3_600_000 };
  const runs = [
    plan(names[0] as string, { attempt: 2 }),
    plan(names[1] as string, { usualDurationMs: null }),
    plan(names[3] as string),
    plan('hourly/import', {
      command: [
        '/usr/bin/node',
        '--require',
        '/opt/probe.cjs',
        '/home/me/site/jobs/hourly/import.mjs',
        '--since',
        'last monday',
      ],
      environment: { ...plan('hourly/import').environment, SHOP_TOKEN: '[SHOP_TOKEN]' },
    }),
    plan('hourly/wrong', {
      fate: 'refused',
      why: {
        reason: 'refused: jobs/hourly/wrong.sh:1: @timeout must be a duration such as 30s, 10m or 2h, found "soon"',
        untilMs: null,
      },
    }),
    plan('hourly/later', { fate: 'waits', why: { reason: 'waits for try 2', ...until } }),
    plan('hourly/paused', { fate: 'paused', why: { reason: 'paused', ...until } }),
  ];
  const plans = [
    { tier: 'hourly', skipped: null, runs },
    { tier: 'daily', skipped: { reason: 'not due', untilMs: nowMs + 10 * 3_600_000 }, runs: [] },
  ];
  await expectScreens('dry-run', (columns) => renderPlans(plans, '/home/me/site', screenOf(columns)));
});
