import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type DueFacts, decideDue } from '../../../src/schedule/due.ts';

const HOUR = 3_600_000;
const START = Date.UTC(2026, 10, 1);

/** A daily tier's facts, asked a minute after midnight; its last pass was that of the day before. */
const facts = (changes: Partial<DueFacts> = {}): DueFacts => ({
  start: START,
  at: START + 60_000,
  last: { state: 'finished', startedAt: START - 24 * HOUR },
  seenAt: START - 24 * HOUR,
  crashes: 0,
  catchUp: 'once',
  ...changes,
});

const last = (state: 'finished' | 'running' | 'crashed', startedAt: number) => ({ last: { state, startedAt } });

test.each<[string, Partial<DueFacts>, string]>([
  ['never called, and seen in the period before', { last: null, seenAt: START - 1 }, 'due'],
  ['never called, and first seen in this period', { last: null, seenAt: START }, 'not-due'],
  ['a new period has begun', {}, 'due'],
  ['its pass of this period has begun in its first moment', last('finished', START), 'not-due'],
  ['it ran a moment before the new period', last('finished', START - 1), 'due'],
  ['many periods were missed', last('finished', START - 900 * HOUR), 'due'],
  ['its pass is under way', last('running', START + 1_000), 'not-due'],
  ['its pass of an earlier period is under way', last('running', START - HOUR), 'not-due'],
  ['its pass of this period died', { ...last('crashed', START + 1_000), crashes: 1 }, 'due'],
  ['it died twice', { ...last('crashed', START + 1_000), crashes: 2 }, 'not-due'],
  ['its pass of an earlier period died', last('crashed', START - HOUR), 'due'],
  ['the clock was set back by a day', last('finished', START + 25 * HOUR), 'due'],
  ['the clock was corrected by a second', last('finished', START + 61_000), 'not-due'],
])('%s: %j is %s', (_, changes, verdict) => {
  expect(decideDue(facts(changes))).toBe(verdict);
});

test.each<[string, Partial<DueFacts>, string]>([
  ['in time', { at: START + HOUR }, 'due'],
  ['more than an hour late', { at: START + HOUR + 1 }, 'missed'],
  ['never called, and late', { at: START + 9 * HOUR, last: null }, 'missed'],
  ['late, but done', { at: START + 9 * HOUR, ...last('finished', START + 1) }, 'not-due'],
])('with catchUp skip, %s it is %3$s', (_, changes, verdict) => {
  expect(decideDue(facts({ catchUp: 'skip', ...changes }))).toBe(verdict);
});

test('a period has at most one finished pass, and at most two that die', () => {
  const asked = fc.array(fc.tuple(fc.integer({ min: 0, max: 23 * HOUR }), fc.boolean()));
  fc.assert(
    fc.property(asked, (calls) => {
      const passes: { state: 'finished' | 'crashed'; startedAt: number }[] = [];
      for (const [offset, dies] of calls.toSorted(([one], [other]) => one - other)) {
        const at = START + offset;
        const crashes = passes.filter(({ state }) => state === 'crashed').length;
        const verdict = decideDue(facts({ at, crashes, last: passes.at(-1) ?? facts().last }));
        if (verdict === 'due') passes.push({ state: dies ? 'crashed' : 'finished', startedAt: at });
      }
      const finished = passes.filter(({ state }) => state === 'finished').length;
      expect(finished).toBeLessThanOrEqual(1);
      expect(passes.length - finished).toBeLessThanOrEqual(2);
      if (calls.length >= 3) expect(passes.length).toBeGreaterThan(0);
    }),
  );
});
