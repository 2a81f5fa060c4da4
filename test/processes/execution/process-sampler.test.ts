import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { executable } from '../../support/root.ts';
import { runOne } from '../../support/run.ts';

const MB = 1024 * 1024;

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
