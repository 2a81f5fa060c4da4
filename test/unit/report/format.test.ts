import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addUp, nearestRank, summarizeRuns } from '../../../src/report/model/runs/runs.ts';
import { createClock } from '../../../src/report/text/clock.ts';
import type { Outcome } from '../../../src/store/words.ts';
import {
  countOf,
  describePace,
  describeRises,
  formatBytes,
  formatDuration,
  formatPeriod,
  formatRate,
} from '../../../src/system/base/format.ts';
import {
  bytesLeftOut,
  firstLine,
  lastLine,
  omission,
  plainText,
  printable,
  printableLine,
  printableOutput,
  toPrintableLines,
} from '../../../src/system/base/text.ts';

test.each([
  [null, '–'],
  [0, '0ms'],
  [0.3, '<1ms'],
  [22.6, '23ms'],
  [1234, '1.2s'],
  [419_800, '7m'],
  [200_400, '3m 20s'],
  [7_500_000, '2h 5m'],
  [-1, '–'],
  [-110_000_000_000, '–'],
])('a duration of %j ms reads %j', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [null, '–'],
  [0, '0B'],
  [46_242_202, '44.1MB'],
])('%j bytes read %j', (count, text) => {
  expect(formatBytes(count)).toBe(text);
});

test('a risen figure is shown with the usual one, since when, and whether the file has changed', () => {
  const rise = { factor: 4.6875, since: '25 Nov', isFileChanged: false, fileChanged: null };
  const slower = { durationMs: 30_000, usualMs: 6400, ...rise };
  const heavier = { maxRssBytes: 300 * 1024 * 1024, usualBytes: 10 * 1024 * 1024, ...rise, factor: 30 };
  const told = (rises: Parameters<typeof describeRises<string>>[0]) => describeRises(rises, (at) => at);
  expect(told({ slower: null, heavier: null })).toEqual([]);
  expect(told({ slower, heavier })).toEqual([
    '30s, 4.7× its usual 6.4s since 25 Nov, its file unchanged',
    'memory 300MB, 30× its usual 10MB since 25 Nov, its file unchanged',
  ]);
  const changed = { ...slower, isFileChanged: true, fileChanged: '24 Nov' };
  expect(told({ slower: changed, heavier: null })).toEqual([
    '30s, 4.7× its usual 6.4s since its file changed on 24 Nov',
  ]);
  const unknown = { ...slower, isFileChanged: null };
  expect(told({ slower: unknown, heavier: null })).toEqual(['30s, 4.7× its usual 6.4s since 25 Nov']);
});

test.each([
  [{ verdict: 'no-handler', due: 3 }, 'no handler here'],
  [{ verdict: 'no-worker', due: 3 }, 'no worker has called'],
  [{ verdict: 'keeps-up' }, 'keeps up'],
  [{ verdict: 'keeps-up', due: 3, clearMs: 200_000 }, 'keeps up, clear in 3m 20s'],
  [{ verdict: 'behind', due: 9, behindPerHour: 1 }, 'falls behind by 1 job an hour'],
  [{ verdict: 'behind', due: 9, workers: 2, clearMs: 720_000 }, '2 workers would clear this in 12m'],
  [
    { verdict: 'behind', due: 9, behindPerHour: 40, workers: 1, clearMs: 60_000 },
    'falls behind by 40 jobs an hour; 1 worker would clear this in 1m',
  ],
  [{ verdict: 'behind', due: 9 }, 'nothing is processed'],
  [{ verdict: 'behind', due: 9, ended: 4 }, 'falls behind'],
] as const)('the pace %j reads %j', (pace, words) => {
  const none = { due: 0, ended: 0, behindPerHour: 0, workers: null, clearMs: null };
  expect(describePace({ ...none, ...pace })).toBe(words);
});

test('a rate is rounded; only what never failed is 100%', () => {
  expect(formatRate(5 / 9)).toBe('55.6%');
  expect(formatRate(0.00001)).toBe('0%');
  expect(formatRate(0.99999)).toBe('99.9%');
  expect(formatRate(1)).toBe('100%');
  expect(formatRate(null)).toBe('–');
});

test('a count agrees with its noun', () => {
  expect(countOf(1, 'run')).toBe('1 run');
  expect(countOf(12_345, 'pass', 'passes')).toBe('12,345 passes');
});

test.each([
  [900_000, 'every 15 minutes'],
  [3_600_000, 'every hour'],
  [5_400_000, 'every 1 hour 30 minutes'],
  [86_400_000, 'every day'],
  [604_800_000, 'every week'],
  [2_592_000_000, 'every month'],
  [31_536_000_000, 'every year'],
])('a period of %j ms reads %j', (ms, text) => {
  expect(formatPeriod(ms)).toBe(text);
});

test('instants are shown in a zone, which has a name', () => {
  const clock = createClock(Date.parse('2026-11-03T12:00:00Z'), 'Europe/Berlin');
  expect(clock.zone).toBe('Europe/Berlin');
  expect(clock.dateTime(Date.parse('2026-07-01T22:04:09Z'))).toBe('2026-07-02 00:04:09');
  expect(clock.short(Date.parse('2026-11-03T12:00:00Z'))).toBe('3 Nov 13:00');
  expect(clock.short(Date.parse('2025-11-03T12:00:00Z'))).toBe('2025-11-03');
});

/** Everything that a terminal could act on. */
const dangerous =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

describe('printable', () => {
  test('removes colours, cursor moves, titles and links', () => {
    expect(printable('\x1b[31mred\x1b[0m')).toBe('red');
    expect(printable('\x1b[2J\x1b[1;1Hgone')).toBe('gone');
    expect(printable('\x1b]0;a title\x07text')).toBe('text');
    expect(printable('\x1b]8;;https://evil.example\x07link\x1b]8;;\x07')).toBe('link');
  });

  test('keeps the lines after a title that never ends', () => {
    expect(printable('\x1b]0;a title\nERROR\nmore\x07')).toBe('␛]0;a title\nERROR\nmore␇');
  });

  test('makes what is left of them visible', () => {
    expect(printable('bell\x07 null\0 escape\x1b')).toBe('bell␇ null␀ escape␛');
    expect(printable('\x7f\x85')).toBe('␡<U+0085>');
  });

  test('makes characters visible that reverse, hide or break text', () => {
    expect(printable('invoice\u202egpj.exe')).toBe('invoice<U+202E>gpj.exe');
    expect(printable('a\u2028b\ufeffc\u2066d')).toBe('a<U+2028>b<U+FEFF>c<U+2066>d');
    expect(printable('half \ud800')).toBe('half <U+D800>');
  });

  test('keeps lines, tabs and every script of the world', () => {
    const text = 'col\tcol\nzwei größer 日本語 👩‍👩‍👧 ܫܠܡܐ';
    expect(printable(text)).toBe(text);
  });

  test('shows a line end of Windows as a line end, and a lone carriage return', () => {
    expect(printable('one\r\n10%\r20%')).toBe('one\n10%␍20%');
  });

  test('leaves nothing that a terminal acts on, whatever comes in', () => {
    const text = fc.string({ unit: 'binary' });
    fc.assert(fc.property(text, (any) => !dangerous.test(printable(any))));
    fc.assert(fc.property(text, (any) => !/[\n\t]/.test(printableLine(any))));
  });
});

describe('text that is looked through', () => {
  test('lacks what is removed or made visible where it is shown', () => {
    expect(plainText('\x1b[31mERROR\x1b[0m\x0f: \x07\u200bdisk\tfull\n')).toBe('ERROR: disk\tfull\n');
  });

  test('begins a line where a terminal begins one anew', () => {
    expect(plainText('one\r\n10%\r20%\x1b[2K\x1b[G30%\0end')).toBe('one\r\n10%\r20%\r30%\rend');
  });
});

describe('one line', () => {
  test('shows line feeds and tabs of a name', () => {
    expect(printableLine('hourly/a\nb\tc')).toBe('hourly/a␊b␉c');
  });

  test('is the first or last that says something', () => {
    expect(firstLine('\n  \nboom\nmore')).toBe('boom');
    expect(lastLine('start\n\x1b[31mno space\x1b[0m\n\n')).toBe('no space');
    expect(lastLine('')).toBe('');
  });
});

describe('an output', () => {
  test('shows the last state of a line that is written over', () => {
    expect(printableOutput('10 %\r20 %\r\n\x1b[32m1\r\x1b[32m2\x1b[0m\r\r\nend\r')).toBe('20 %\n2\nend');
    expect(printableOutput('100 %\r     \rdone\n')).toBe('done\n');
    expect(printableOutput('\r\r')).toBe('');
  });

  test('tells how much was left out where its line stands, and of no other line', () => {
    expect(omission(4096).split('\n').map(bytesLeftOut)).toEqual([null, 4096, null]);
    expect(bytesLeftOut('[… many bytes left out …]')).toBeNull();
  });
});

describe('pieces of output', () => {
  test('show a progress bar once, in its last state, however it was cut', async () => {
    const text = 'first\n10 %\r20 %\r30 %\r\nlast\n';
    for (let cut = 0; cut <= text.length; cut++) {
      let shown = '';
      for await (const piece of toPrintableLines([text.slice(0, cut), text.slice(cut)])) shown += piece;
      // What was passed on before anything was written over it keeps its line.
      expect(shown.replace(/^(?:1|10|10 |10 %)\n/m, '')).toBe('first\n30 %\nlast\n');
    }
  });

  test('keep no more of a progress bar than its state', async () => {
    async function* bar() {
      for (let part = 0; part < 1000; part += 1) yield `\r${String(part).padStart(1000, '#')}`;
    }
    const shown: string[] = [];
    for await (const piece of toPrintableLines(bar())) shown.push(piece);
    expect(shown).toEqual(['999'.padStart(1000, '#')]);
  });

  test('are safe wherever they were cut', async () => {
    const text = 'a\x1b[31mred\x1b[0m b\r\nc\x1b]0;title\x07d\n';
    for (let cut = 0; cut <= text.length; cut++) {
      let shown = '';
      for await (const piece of toPrintableLines([text.slice(0, cut), text.slice(cut)])) {
        shown += piece;
      }
      expect(shown).toBe('ared b\ncd\n');
    }
  });

  test('are handed on before their line ends', async () => {
    const shown = toPrintableLines(['working ', '.\n']);
    expect((await shown.next()).value).toBe('working ');
  });

  test('that begin a sequence without end do not pile up', async () => {
    const endless = Array.from({ length: 100 }, () => `\x1b${'x'.repeat(1000)}`);
    let longest = 0;
    for await (const piece of toPrintableLines(endless)) longest = Math.max(longest, piece.length);
    expect(longest).toBeLessThan(10_000);
  });
});

test('a line takes no longer for its length: a program may print all its data as one', () => {
  const line = 'x'.repeat(2_000_000);
  const from = performance.now();
  expect(printable(`${line}\n${line}\u001b[31m`)).toBe(`${line}\n${line}`);
  expect(performance.now() - from).toBeLessThan(5_000);
});

interface Run {
  readonly other: Outcome | null;
  readonly durationMs: number | null;
  readonly cpuMs: number | null;
  readonly maxRssBytes: number | null;
}

function run(fields: Partial<Run> = {}): Run {
  return { other: null, durationMs: 100, cpuMs: 40, maxRssBytes: 1000, ...fields };
}

function summarize(runs: readonly Run[]) {
  const known = (figures: readonly (number | null)[]) =>
    figures.filter((figure) => figure !== null).toSorted(ascending);
  const microseconds = (times: readonly (number | null)[]) =>
    Float64Array.from(known(times), (ms) => Math.round(ms * 1000));
  return summarizeRuns({
    runs: runs.length,
    others: runs.flatMap(({ other }) => other ?? []),
    durations: microseconds(runs.map(({ durationMs }) => durationMs)),
    cpu: microseconds(runs.map(({ cpuMs }) => cpuMs)),
    maxRssBytes: known(runs.map(({ maxRssBytes }) => maxRssBytes)).at(-1) ?? null,
  });
}

const ascending = (one: number, other: number): number => one - other;

describe('a summary', () => {
  test('counts everything that ended without success as failed, but for what was given back', () => {
    const others: readonly (Outcome | null)[] = [
      null,
      'failed',
      'timed-out',
      'killed',
      'crashed',
      'not-started',
      'released',
      'released',
      'running',
    ];
    const summary = summarize(others.map((other) => run({ other })));
    expect(summary).toMatchObject({ ...{ runs: 9, succeeded: 1, failed: 5 }, ...{ released: 2, successRate: 1 / 6 } });
  });

  test('takes percentiles that were really measured', () => {
    const runs = Array.from({ length: 20 }, (_, index) => run({ durationMs: (index + 1) * 10 }));
    expect(summarize(runs)).toMatchObject({
      p50DurationMs: 100,
      p95DurationMs: 190,
      maxDurationMs: 200,
      totalDurationMs: 2100,
    });
  });

  test('takes the median of what CPU the runs took', () => {
    const runs = [run({ cpuMs: 0.1 + 0.2 }), run(), run({ cpuMs: 910 })];
    expect(summarize(runs)).toMatchObject({ cpuMs: 40, totalCpuMs: 950.3 });
  });

  test('keeps unknown figures out instead of counting them as 0', () => {
    const unknown = { durationMs: null, cpuMs: null, maxRssBytes: null };
    expect(summarize([run(unknown), run()])).toMatchObject({ p50DurationMs: 100, cpuMs: 40 });
    expect(summarize([run(unknown)])).toMatchObject({
      runs: 1,
      p50DurationMs: null,
      p95DurationMs: null,
      maxDurationMs: null,
      cpuMs: null,
      maxRssBytes: null,
      totalDurationMs: null,
    });
  });

  test('has no success rate before a run has ended', () => {
    expect(summarize([]).successRate).toBeNull();
    expect(summarize([run({ other: 'running' })]).successRate).toBeNull();
    expect(summarize([run({ other: 'released' })]).successRate).toBeNull();
  });
});

test('the nearest rank of one value is that value, for every share', () => {
  for (const share of [0, 0.5, 0.95, 1]) expect(nearestRank(Float64Array.of(7), share)).toBe(7);
  expect(nearestRank(new Float64Array(), 0.5)).toBeNull();
});

test('totals add up scripts, and keep what is unknown everywhere unknown', () => {
  const one = summarize([run(), run({ other: 'failed', maxRssBytes: 9000 })]);
  const left = [run({ other: 'running' }), run({ other: 'released', durationMs: null })];
  const other = summarize([run({ cpuMs: null }), ...left]);
  expect(addUp([one, other])).toEqual({
    runs: 5,
    succeeded: 2,
    failed: 1,
    released: 1,
    stopped: 0,
    successRate: 2 / 3,
    totalDurationMs: 400,
    totalCpuMs: 160,
    maxRssBytes: 9000,
  });
  expect(addUp([])).toMatchObject({ runs: 0, successRate: null, totalCpuMs: null });
});
