import { createHash } from 'node:crypto';
import { groupBy } from '../until.ts';

const { FAULT_POINTS } = process.env;

/** Of so many points, or of so many places in the code, one is hit. */
export const SHARE = FAULT_POINTS === 'all' || FAULT_POINTS === 'places' ? 1 : FAULT_POINTS === 'tenths' ? 10 : 20;

/** Of the fault points at one place in the code one is hit. */
const isOneOfEachPlaceWanted = FAULT_POINTS === 'places' || FAULT_POINTS === 'tenths';

export const areAllWanted = SHARE === 1;

/** What is left to chance goes by it; told at the end of each run of the tests. */
export const seed = Number(process.env.FAULT_SEED ?? 0);

/** All of them, or those that the seed chooses. */
export function sample<Item>(items: readonly Item[]): readonly Item[] {
  return items.filter((_, index) => (index + seed) % SHARE === 0);
}

/** Of cases that differ in a number alone: all of them, or two or more that the seed chooses. */
export function sampleCases<Item>(items: readonly Item[]): readonly Item[] {
  return rotate(items).slice(0, Math.max(2, Math.ceil(items.length / SHARE)));
}

/** How often what is left to chance is tried: where all points are wanted, or else. */
export function rounds(all: number): number {
  return Math.ceil(all / SHARE);
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

/** A point at which somebody is killed, from the same beginning as all others of its scenario. */
export interface Round {
  readonly at: string;
  /** What is done before it and after it, each with all that has called it: the same for several, maybe. */
  readonly place: string;
}

export interface Played {
  /** What comes by the clock comes more or less often: a point of a high number may not come. */
  readonly isHit: boolean;
  readonly wrong: readonly string[];
}

/** Plays the rounds of one scenario after the other that are wanted: of each place one, where that is. */
export class Places {
  readonly #hit = new Set<string>();

  /** What a scenario has in common with one before it is left to that one: in turn, by the seed. */
  order<Scenario>(scenarios: readonly Scenario[]): readonly Scenario[] {
    return isOneOfEachPlaceWanted ? rotate(scenarios) : scenarios;
  }

  /** How many were to be hit, how many of them were not, and what went wrong. */
  async play<OfScenario extends Round>(
    rounds: readonly OfScenario[],
    play: (round: OfScenario) => Promise<Played>,
    atOnce?: number,
  ): Promise<{ readonly wanted: number; readonly missed: number; readonly wrong: readonly string[] }> {
    const wanted = isOneOfEachPlaceWanted ? this.#groupNew(rounds) : sample(rounds).map((round) => [round]);
    const played = await someAtATime(wanted, (alike) => this.#playUntilHit(alike, play), atOnce);
    const missed = played.filter(({ isHit }) => !isHit).length;
    return { wanted: wanted.length, missed, wrong: played.flatMap(({ wrong }) => wrong) };
  }

  #groupNew<OfScenario extends Round>(rounds: readonly OfScenario[]): readonly (readonly OfScenario[])[] {
    const left = rounds.filter(({ place }) => !this.#hit.has(place) && isChosen(place));
    return [...groupBy(left, ({ place }) => place).values()].map(rotate);
  }

  /** Where one is not reached, the next one of its place stands in for it. */
  async #playUntilHit<OfScenario extends Round>(
    alike: readonly OfScenario[],
    play: (round: OfScenario) => Promise<Played>,
  ): Promise<Played> {
    const wrong: string[] = [];
    for (const round of alike) {
      const played = await play(round);
      wrong.push(...played.wrong);
      if (!played.isHit) continue;
      this.#hit.add(round.place);
      return { isHit: true, wrong };
    }
    return { isHit: false, wrong };
  }
}

/** By its name alone: whichever scenario comes to a place, it is chosen or not. */
function isChosen(place: string): boolean {
  return (createHash('md5').update(place).digest().readUInt32BE() + seed) % SHARE === 0;
}

/** The same ones, beginning where the seed says. */
function rotate<Item>(items: readonly Item[]): readonly Item[] {
  const first = seed % Math.max(items.length, 1);
  return [...items.slice(first), ...items.slice(0, first)];
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
