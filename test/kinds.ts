import { testedEngines, untested } from './support/engines/engines.ts';
import { SHARE } from './support/faults/rounds.ts';

/** A folder of tests. Where a file lies says how it runs. */
interface Kind {
  readonly name: string;
  /** SQLite has all tests but those of `servers`; the others have what holds whatever keeps the log. */
  readonly engines: 'sqlite' | 'each' | 'servers';
  /**
   * Whether its files share processes, which saves half a second each. A file there leaves its process as it was, and
   * has no hook outside of its own source: hooks of a helper run for the first file of a process alone.
   */
  readonly sharesProcesses: boolean;
  /** Whether `npm test` runs it. */
  readonly isDaily: boolean;
}

/** In the order in which they begin: else all wait in the end for what takes longest. */
export const kinds: readonly Kind[] = [
  { name: 'machines', engines: 'servers', sharesProcesses: false, isDaily: false },
  { name: 'integration', engines: 'sqlite', sharesProcesses: false, isDaily: false },
  { name: 'faults', engines: 'sqlite', sharesProcesses: false, isDaily: false },
  { name: 'browser', engines: 'sqlite', sharesProcesses: false, isDaily: false },
  { name: 'processes', engines: 'sqlite', sharesProcesses: false, isDaily: false },
  { name: 'engines', engines: 'each', sharesProcesses: true, isDaily: true },
  { name: 'command', engines: 'sqlite', sharesProcesses: true, isDaily: true },
  { name: 'docs', engines: 'sqlite', sharesProcesses: true, isDaily: true },
  { name: 'unit', engines: 'sqlite', sharesProcesses: true, isDaily: true },
];

/** Set by `.ci/run`, where the machine is there for nothing else: these kinds add users, mount disks, start daemons. */
export const isMachineOurs = process.env.RUN_INTEGRATION === '1';
const changingTheMachine = ['integration', 'machines'];

/** A kind on an engine. */
export interface Suite {
  readonly name: string;
  readonly kind: Kind;
  readonly engine: string;
  readonly include: readonly string[];
}

export const suites: readonly Suite[] = kinds
  .filter(({ name }) => isMachineOurs || !changingTheMachine.includes(name))
  .flatMap((kind) =>
    testedEngines
      .filter(({ name }) => (name === 'sqlite' ? kind.engines !== 'servers' : kind.engines !== 'sqlite'))
      .map(({ name: engine }) => ({
        name: engine === 'sqlite' ? kind.name : `${kind.name} on ${engine}`,
        kind,
        engine,
        include: [`test/${foldersOf(kind.name, engine)}/**/*.test.ts`],
      })),
  );

/** Unless `TEST_ENGINES` asks for more, a server has what states its dialect. */
function foldersOf(kind: string, engine: string): string {
  const isAsked = engine === 'sqlite' || process.env.TEST_ENGINES !== undefined;
  return kind === 'engines' && !isAsked ? 'engines/{conformance,store}' : kind;
}

/** What a run says last, so that nobody takes a green one for all there is. `ran`: suites that it has run. */
export function describeUntested(ran: readonly string[]): readonly string[] {
  const left = kinds.filter(({ name }) => !ran.some((suite) => suite.split(' ')[0] === name));
  const [ours, machines] = [left.filter(isOfAnyMachine), left.filter((kind) => !isOfAnyMachine(kind))];
  return [
    ...untested,
    ...ours.map(({ name }) => `NOT RUN HERE: test/${name}/; npx vitest run --project ${name} runs it`),
    ...machines.map(({ name }) => `NOT RUN HERE: test/${name}/, which changes the machine; .ci/run runs it`),
    ...(ran.includes('faults') ? describeShare() : []),
  ];
}

function isOfAnyMachine({ name }: Kind): boolean {
  return !changingTheMachine.includes(name);
}

function describeShare(): readonly string[] {
  const seed = `FAULT_SEED=${process.env.FAULT_SEED}`;
  if (process.env.FAULT_POINTS === 'tenths') {
    return [`A TENTH: one of 10 places in the code is hit, that of ${seed}; FAULT_POINTS=places hits each of them.`];
  }
  if (SHARE === 1) return [];
  return [`A SAMPLE: one of ${SHARE} fault points is hit, those of ${seed}; FAULT_POINTS=places hits each place.`];
}
