import fc from 'fast-check';
import type { JobOptions } from '../../src/queue/api.ts';

/** What somebody does; a job is told by where it stands among all. */
export type Verb =
  | { readonly do: 'add'; readonly name: string; readonly options: JobOptions }
  | { readonly do: 'add a child'; readonly job: number }
  | { readonly do: 'claim' }
  | { readonly do: 'finish' | 'retry' | 'fail' | 'bury'; readonly claim: number }
  | { readonly do: 'kick' | 'cancel' | 'delete' | 'update'; readonly job: number }
  | { readonly do: 'kick all' }
  | { readonly do: 'pause' | 'fail-fast' | 'resume'; readonly pattern: string };

/** Workers that work off what is due, of which one may be killed, and what is done meanwhile. */
export interface Work {
  readonly do: 'work';
  readonly killedAt: readonly (number | null)[];
  readonly meanwhile: readonly Verb[];
}

const number = fc.nat({ max: 20 });
const options: fc.Arbitrary<JobOptions> = fc.record(
  {
    priority: fc.constantFrom(100, 500, 900),
    uniqueKey: fc.constantFrom('a', 'b'),
    onDuplicate: fc.constantFrom('keep', 'replace', 'merge'),
    runAt: fc.constant('+1h'),
    onChildFailure: fc.constantFrom('resume', 'fail'),
    repeat: fc.constant('FINISHED, +1 HOUR'),
  },
  { requiredKeys: [] },
);
/** A policy for duplicates is refused where there is no key. */
const rightOptions = options.map(({ onDuplicate = 'keep', ...rest }) =>
  rest.uniqueKey === undefined ? rest : { ...rest, onDuplicate },
);
const add = fc.record({
  do: fc.constant('add'),
  name: fc.constantFrom('warm', 'program', 'fails', 'parent', 'parent'),
  options: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, rightOptions),
}) as fc.Arbitrary<Verb>;
const verb = fc.oneof(
  { weight: 8, arbitrary: add },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('add a child'), job: number }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('claim') }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('finish', 'retry', 'fail', 'bury'), claim: number }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('kick', 'cancel', 'delete', 'update'), job: number }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('kick all') }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('pause', 'fail-fast', 'resume', 'resume'),
      pattern: fc.constantFrom('*', 'warm', 'p*'),
    }),
  },
) as fc.Arbitrary<Verb>;
const work: fc.Arbitrary<Work> = fc.record({
  do: fc.constant('work'),
  killedAt: fc.array(fc.option(fc.integer({ min: 12, max: 90 }), { freq: 4 }), { minLength: 1, maxLength: 2 }),
  meanwhile: fc.array(verb, { maxLength: 4 }),
});
/** First of all there is something to be done. */
export const story = fc
  .tuple(
    fc.array(add, { minLength: 2, maxLength: 4 }),
    fc.array(fc.oneof({ weight: 7, arbitrary: verb }, { weight: 2, arbitrary: work }), {
      minLength: 10,
      maxLength: 18,
    }),
  )
  .map(([first, further]) => [...first, ...further]);
