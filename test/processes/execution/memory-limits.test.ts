import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { type MemoryLimits, watchMemory } from '../../../src/execution/watch/watch.ts';
import { listGroup } from '../../../src/system/process/tree.ts';
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
