import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { stripVTControlCharacters } from 'node:util';
import type { SerializedError } from 'vitest';
import { defineConfig } from 'vitest/config';
import {
  BaseSequencer,
  JsonReporter,
  type Reporter,
  type TestCase,
  type TestModule,
  type TestSpecification,
} from 'vitest/node';
import { areLengthyHere, isMachineOurs, leftToCi, lengthy } from './test/integration/left-to-ci.ts';
import { testedEngines, untested } from './test/support/engines.ts';
import { apart, ofAnyEngine, together } from './test/support/together.ts';

const results = process.env.VITEST_RESULTS;

/** What takes longest begins first, in this order: else it is what all wait for in the end. */
const longest = [
  ...['queue/verbs-by-state', 'queue/end-job', 'queue/add-jobs', 'queue/claim-jobs', 'queue/list-jobs'],
  ...['faults/fleet-chaos', 'faults/kill-runner', 'faults/queue-kill-worker', 'faults/queue-kill-verbs'],
  ...['faults/model'],
  ...['faults/mangled-', 'faults/queue-child-dies', 'faults/clock-steps', 'faults/upgrade', 'docs/examples'],
  ...['dashboard/charts', 'faults/queue-leases', 'commands/work.', 'child/typescript', 'dashboard/manage.'],
  ...['claim-follow', 'html-report', 'dashboard/overview', 'commands/jobs', 'test/faults/', 'doctor/doctor-'],
  ...['pause-commands', 'memory-limits', 'replay-spool', 'run-due', 'work.test', 'tier-lock', 'watch-log'],
];

/** Projects in their order: the small files, of which the last one has most, come last. */
const turns = ['apart', 'together'].flatMap((how) =>
  testedEngines.map(({ name }) => projectOf(how, name)).toReversed(),
);

function projectOf(how: string, engine: string): string {
  return engine === 'sqlite' ? how : `${how} on ${engine}`;
}

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const placeOf = ({ moduleId }: TestSpecification): number => {
      const place = longest.findIndex((part) => moduleId.includes(part));
      return place === -1 ? longest.length : place;
    };
    // A process is handed on only to the next file of the same project.
    const turnOf = ({ project }: TestSpecification): number => turns.indexOf(project.name);
    return sorted.toSorted((one, other) => turnOf(one) - turnOf(other) || placeOf(one) - placeOf(other));
  }
}

/** Who reads the last lines of a run must not believe that more was tested. */
class NamesUntested implements Reporter {
  onTestRunEnd(): void {
    for (const line of untested) console.log(line);
  }
}

/**
 * What failed beside others and passed at its second try, which refuses no change and is a bug to be found; and
 * errors of no test, which fail the run.
 */
class NamesAccidents implements Reporter {
  readonly #lines: string[] = [];

  onTestCaseResult(test: TestCase): void {
    if (!test.diagnostic()?.flaky) return;
    const name = `${test.project.name}: ${test.module.relativeModuleId}: ${test.fullName}`;
    this.#lines.push(describeAccident(`FLAKY: ${name}`, test.result().errors ?? []));
  }

  onTestRunEnd(_modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    if (unhandled.length > 0) this.#lines.push(describeAccident('UNHANDLED', unhandled));
    for (const line of this.#lines) console.log(line);
    if (results && this.#lines.length > 0) writeFileSync(`${results}.accidents`, `${this.#lines.join('\n')}\n`);
  }
}

function describeAccident(name: string, errors: readonly SerializedError[]): string {
  const why = errors.map(({ message, diff = '' }) => stripVTControlCharacters(`${message}\n${diff}`)).join('\n');
  return `${name}: ${why.replaceAll('\n', '\n    ')}`;
}

const notHere = isMachineOurs ? [] : leftToCi;
/** What takes long on SQLite may be short on a server, which has few of its tests. */
const notOnSqlite = areLengthyHere ? [] : lengthy;

export default defineConfig({
  test: {
    projects: testedEngines.flatMap(({ name }, index) => {
      const isFirst = index === 0;
      // SQLite has all tests, those that no engine has anything to do with, too.
      const hasAll = name === 'sqlite';
      const isHere = (file: string): boolean =>
        !notHere.includes(file) && (hasAll ? !notOnSqlite.includes(file) : ofAnyEngine.includes(file));
      const servers = name !== 'sqlite' ? ['test/support/engines/start-servers.ts'] : [];
      return [
        {
          extends: true,
          test: {
            name: projectOf('together', name),
            include: together.filter(isHere),
            isolate: false,
            env: { TEST_ENGINE: name },
            // Said once.
            globalSetup: ['build.ts', ...(isFirst ? ['test/integration/left-to-ci.ts'] : []), ...servers],
          },
        },
        {
          extends: true,
          test: {
            name: projectOf('apart', name),
            include: apart.filter(isHere),
            env: { TEST_ENGINE: name },
            globalSetup: ['build.ts', ...servers],
          },
        },
      ];
    }),
    // More than there are processors: tests wait for other processes more than they work.
    maxWorkers: availableParallelism() + 2,
    sequence: { sequencer: LongestFirst },
    // For what hangs: a busy machine may take a minute over what a quiet one does in ten seconds.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Where a change lands one of some ten thousand must not refuse it; whoever works on a test sees it fail.
    retry: process.env.CI ? 1 : 0,
    // A test that nobody runs is a defect: neither `.only` nor an empty run may pass.
    allowOnly: false,
    passWithNoTests: false,
    // `.ci/run` adds up the tests of several runs.
    reporters: [
      'default',
      new NamesUntested(),
      new NamesAccidents(),
      ...(results ? [new JsonReporter({ outputFile: results })] : []),
    ],
  },
  resolve: { alias: { 'folder-runner': new URL('./src/index.ts', import.meta.url).pathname } },
});
