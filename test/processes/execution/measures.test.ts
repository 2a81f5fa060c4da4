import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { type MemoryLimits, watchMemory } from '../../../src/execution/watch/watch.ts';
import { listGroup } from '../../../src/system/process/tree.ts';
import { executable } from '../../support/root.ts';
import { requestRun, runOne } from '../../support/run.ts';
import { until } from '../../support/until.ts';

const MB = 1024 * 1024;

describe('a watch over samples', () => {
  const limits: MemoryLimits = { warnBytes: null, maxBytes: 400 * MB, sustainMs: 5_000 };

  function watchSamples(samples: readonly (readonly [seconds: number, megabytes: number])[]) {
    let now = 0;
    let calls = 0;
    const watch = watchMemory(
      limits,
      () => {
        calls += 1;
      },
      () => now,
    );
    for (const [seconds, megabytes] of samples) {
      now = seconds * 1000;
      const rssBytes = megabytes * MB;
      watch.look({ userCpuMs: 0, systemCpuMs: 0, rssBytes, peakRssBytes: rssBytes, isLoaded: true }, [1]);
    }
    return { calls, excess: watch.excess(), peakBytes: watch.peakBytes() };
  }

  test('counts from the first sample above the limit, and says so once', () => {
    expect(
      watchSamples([
        [0, 300],
        [1, 410],
        [5.9, 430],
        [6.1, 412],
        [7, 500],
      ]),
    ).toEqual({ calls: 1, excess: { usedBytes: 412 * MB, forMs: 5100, limitBytes: 400 * MB }, peakBytes: 500 * MB });
  });

  test('begins anew when the memory was below the limit in between', () => {
    const seen = watchSamples([
      [0, 500],
      [4.9, 500],
      [5, 400],
      [5.1, 500],
      [10, 500],
    ]);
    expect(seen).toMatchObject({ calls: 0, excess: null, peakBytes: 500 * MB });
  });
});

/** `"x" x $n` would take twice as much. */
const allocate = (megabytes: number): string => `vec(my $held, ${megabytes * MB} - 1, 8) = 1;`;

/** Holds so much memory in Perl for so many seconds: longer than from one look to the next, and all of it is seen. */
const hold = (megabytes: number, seconds: number): string =>
  `perl -e '${allocate(megabytes)} select(undef, undef, undef, ${seconds})'`;

describe('of a real run', () => {
  test('above the warning limit is noted, and nothing else', async () => {
    const end = await runOne('warn.sh', `# @warn-rss 50mb\n${hold(80, 2)}\n`);
    expect(end).toMatchObject({ outcome: 'succeeded', reason: null });
    expect(end.warning).toMatch(/^used (?:8|9)\d MB of resident memory, more than its warning limit of 50 MB$/);
  });

  test('a Node script that is over before anybody looks tells it itself', async () => {
    const end = await runOne('short.mjs', `// @warn-rss 50mb\nBuffer.alloc(${80 * MB}, 1);\n`);
    expect(end.warning).toMatch(/more than its warning limit of 50 MB$/);
  });

  test.for([
    ['a shell script', 'sh', '#', hold(120, 30)],
    ['a Node script', 'mjs', '//', `globalThis.held = Buffer.alloc(${120 * MB}, 1);\nsetTimeout(() => {}, 30_000);`],
  ] as const)('above the hard limit for long enough ends %s', async ([, kind, mark, source]) => {
    const tags = `${mark} @max-rss 100mb\n${mark} @rss-sustain 400ms\n`;
    const end = await runOne(`hard.${kind}`, `${tags}${source}\n`);
    expect(end).toMatchObject({ outcome: 'failed', signal: 'SIGTERM' });
    expect(end.reason).toMatch(/^used 1\d\d MB of resident memory for \d+ms \(limit 100 MB\), ended with SIGTERM$/);
    expect(end.durationMs).toBeGreaterThan(400);
    expect(end.durationMs).toBeLessThan(10_000);
  });

  test('a short peak ends nothing', async () => {
    const source = `# @max-rss 60mb\n# @rss-sustain 5s\n${hold(100, 2)}\nsleep 0.3\n`;
    const end = await runOne('peak.sh', source);
    expect(end).toMatchObject({ outcome: 'succeeded', warning: null });
    expect(end.maxRssBytes).toBeGreaterThan(100 * MB);
  });

  test('processes whose parent has ended count', async () => {
    const request = await requestRun(
      'reparented.sh',
      `# @max-rss 60mb\n# @rss-sustain 200ms\n(${hold(100, 30)} & echo $! >"$RUNNER_ROOT/pid")\nsleep 30\n`,
    );
    const end = await runScript(request);
    expect(end.reason).toMatch(/^used (?:[6-9]|1\d)\d MB of resident memory/);
    const pid = Number(readFileSync(join(request.root, 'pid'), 'utf8'));
    await until('it is gone', () => !listGroup(pid).includes(pid));
  });

  test('memory that several processes share counts once', async () => {
    const source = `# @max-rss 250mb\n# @rss-sustain 0s\n${allocate(100)}
for (1..4) { next if fork; select(undef, undef, undef, 2); exit }
1 while wait != -1;\n`;
    const end = await runOne('shared.pl', source);
    expect(end).toMatchObject({ outcome: 'succeeded', reason: null });
    // The sum of what each has: each of the five counts what it shares in full.
    expect(end.maxRssBytes).toBeGreaterThan(400 * MB);
  });
});

test('samples tell of the most memory so far', async () => {
  const peaks: number[] = [];
  await runOne('samples.sh', `${hold(30, 2)}\n`, { onSample: (bytes) => peaks.push(bytes) });
  expect(peaks).toEqual(peaks.toSorted((one, other) => one - other));
  expect(peaks.at(-1)).toBeGreaterThan(30 * MB);
});

// Elsewhere these figures are null, which the tests of the reports cover.
describe.runIf(existsSync('/proc/self/stat'))('of a script that does not measure itself', () => {
  test('a run of 50 ms has figures', async () => {
    // A busy machine may look at one of them too late: it then says that nobody knows.
    let end = await runOne('short.sh', 'sleep 0.05\n');
    for (let more = 0; more < 5 && end.maxRssBytes === null; more += 1) end = await runOne('short.sh', 'sleep 0.05\n');
    expect(end).toMatchObject({ outcome: 'succeeded', measuredBy: 'sampled' });
    expect(end.maxRssBytes).toBeGreaterThan(200_000);
    expect(end.maxRssBytes).toBeLessThan(50 * MB);
    expect(end.userCpuMs).toBeLessThan(50);
  });

  test.for([
    ['shell', 'sh', 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done\ntimes\n'],
    ['Perl', 'pl', 'my $i = 0; $i++ while $i < 15e6;\nmy @t = times; print "$t[0] $t[1]\\n";\n'],
    ['shell with children', 'sh', `for n in 1 2 3; do perl -e 'my $i = 0; $i++ while $i < 6e6'; done\ntimes\n`],
  ] as const)('the CPU time of a busy %s is right within a quarter', async ([, kind, source]) => {
    const end = await runOne(`busy.${kind}`, source);
    expect(end).toMatchObject({ outcome: 'succeeded', measuredBy: 'sampled' });
    const own = secondsOf(end.output.text) * 1000;
    const measured = (end.userCpuMs ?? 0) + (end.systemCpuMs ?? 0);
    expect(own).toBeGreaterThan(100);
    expect(measured).toBeGreaterThan(own * 0.75);
    expect(measured).toBeLessThan(own * 1.25);
  });

  test('of a script of a few milliseconds the memory is unknown, and never lower than the truth', async () => {
    const { maxRssBytes: truth } = await runOne(
      'long.sh',
      executable('#!/bin/sh\nprintf x; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done\n'),
    );
    expect(truth).toBeGreaterThan(MB / 2);
    for (let run = 0; run < 20; run += 1) {
      const { maxRssBytes } = await runOne('short.sh', executable('#!/bin/sh\nprintf x\n'));
      if (maxRssBytes !== null) expect(maxRssBytes).toBeGreaterThan((truth as number) / 2);
    }
  });

  test('the memory of a child counts', async () => {
    const end = await runOne('family.sh', `perl -e 'my $text = "x" x ${60 * MB}; select(undef, undef, undef, 0.3)'\n`);
    expect(end.maxRssBytes).toBeGreaterThan(60 * MB);
    expect(end.maxRssBytes).toBeLessThan(150 * MB);
  });
});

test('a Node script that is killed has the figures that were sampled until then', async () => {
  const end = await runOne(
    'killed.mjs',
    `const bytes = Buffer.alloc(${100 * MB}, 1);
// Long enough to be looked at on a busy machine, too.
const end = Date.now() + 2_000;
while (process.cpuUsage().user < 400_000 || Date.now() < end);
process.kill(process.pid, 'SIGKILL');\n`,
  );
  expect(end).toMatchObject({
    outcome: 'killed',
    exitCode: null,
    signal: 'SIGKILL',
    measuredBy: 'sampled',
    reason: expect.stringMatching(
      /^killed by SIGKILL, not by the runner: probably the host's memory limit \(last seen 1\d\d MB\)$/,
    ),
  });
  expect(end.maxRssBytes).toBeGreaterThan(100 * MB);
  expect(end.userCpuMs).toBeGreaterThan(200);
});

/** Of `0m0.120s 0m0.010s` lines, or of plain seconds. */
function secondsOf(times: string): number {
  return times
    .trim()
    .split(/\s+/)
    .map((time) => Number.parseFloat(time.replace(/^0m/, '')))
    .reduce((sum, seconds) => sum + seconds, 0);
}

const hasProc = existsSync('/proc/self/stat');

test.runIf(hasProc)('runs side by side are not charged with each other’s CPU time', async () => {
  const busy = 'my $i = 0; $i++ while $i < 12e6;\nmy @t = times; print $t[0] + $t[1];\n';
  const requests = await Promise.all([
    requestRun('idle.sh', 'sleep 1\n'),
    requestRun('busy.pl', busy),
    requestRun('idle.sh', 'sleep 1\n'),
    requestRun('busy.pl', busy),
  ]);
  const [idle, busyOne, idleToo, busyOther] = await Promise.all(requests.map((request) => runScript(request)));
  for (const end of [idle, idleToo]) {
    // A busy one uses several times as much.
    expect((end?.userCpuMs ?? 1e9) + (end?.systemCpuMs ?? 1e9)).toBeLessThan(150);
  }
  for (const end of [busyOne, busyOther]) {
    const own = Number(end?.output.text) * 1000;
    const measured = (end?.userCpuMs ?? 0) + (end?.systemCpuMs ?? 0);
    expect(measured).toBeGreaterThan(own * 0.4);
    expect(measured).toBeLessThan(own * 1.25);
  }
});
