/** Set by `.ci/run`: every fault point is hit. Elsewhere a named part of them, another one each day. */
export const areAllWanted = process.env.FAULT_POINTS === 'all';

/** Of so many points one is hit where time is short. */
export const SHARE = 20;

/** What is left to chance goes by it; told at the end of each run of the tests. */
export const seed = Number(process.env.FAULT_SEED ?? 0);

/** All of them, or those that the seed chooses. */
export function sample<Item>(items: readonly Item[]): readonly Item[] {
  return areAllWanted ? items : items.filter((_, index) => (index + seed) % SHARE === 0);
}

/** Of cases that differ in a number alone: all of them, or two that the seed chooses. */
export function sampleCases<Item>(items: readonly Item[]): readonly Item[] {
  const [first, second] = [seed, seed + 1].map((at) => at % items.length);
  return areAllWanted ? items : items.filter((_, index) => index === first || index === second);
}

/** How often what is left to chance is tried: where all points are wanted, or else. */
export function rounds(all: number): number {
  return areAllWanted ? all : Math.ceil(all / SHARE);
}

/** From 0 up to, but not including, 1; the same series for the same seed (mulberry32). */
export function createRandom(): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Works on some at a time, as each mostly waits, and collects what all of them answer. */
export async function someAtATime<Item, Answer>(
  items: readonly Item[],
  work: (item: Item) => Promise<Answer>,
  atOnce = 3,
): Promise<Answer[]> {
  const waiting = [...items];
  const answers: Answer[] = [];
  const workOff = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      answers.push(await work(item));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, workOff));
  return answers;
}
