import fc from 'fast-check';
import { expect } from 'vitest';
import { rounds, seed, someAtATime } from '../support/faults/rounds.ts';

/**
 * Plays so many stories, some at a time, as each mostly waits; what is found is told with its story. In CI the two
 * drivers play 500.
 */
export async function playRounds<Story>(
  count: number,
  stories: fc.Arbitrary<Story>,
  play: (story: Story) => Promise<void>,
  examples: readonly Story[] = [],
): Promise<void> {
  const all = [...examples, ...fc.sample(stories, { seed, numRuns: rounds(count) })];
  const found = await someAtATime(all, async (story) => {
    try {
      await play(story);
      return [];
    } catch (error) {
      const finding = `${JSON.stringify(story)}\n${error instanceof Error ? error.message : error}`;
      // At once: whoever ends the test early knows what it has found so far.
      process.stderr.write(`${finding}\n`);
      return [finding];
    }
  });
  expect(found.flat().join('\n\n')).toBe('');
}
