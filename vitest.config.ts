import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { areNoPointsHit, isMachineOurs, leftToCi, sampled } from './test/integration/left-to-ci.ts';
import { engines } from './test/support/engines.ts';
import { apart, ofAnyEngine, together } from './test/support/together.ts';

const results = process.env.VITEST_RESULTS;

/** What takes longest begins first, in this order: else it is what all wait for in the end. */
const longest = [
  ...['faults/kill-runner', 'faults/queue-kill-worker', 'faults/queue-kill-verbs', 'faults/model'],
  ...['faults/mangled-', 'faults/queue-child-dies', 'faults/clock-steps', 'faults/upgrade', 'docs/examples'],
  ...['doctor/doctor-', 'test/faults/', 'pause-commands', 'memory-limits', 'replay-spool', 'run-due', 'work.test'],
  ...['tier-lock', 'watch-log'],
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const placeOf = ({ moduleId }: TestSpecification): number => {
      const place = longest.findIndex((part) => moduleId.includes(part));
      return place === -1 ? longest.length : place;
    };
    return sorted.toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}

const notHere = [...(isMachineOurs ? [] : leftToCi), ...(areNoPointsHit ? sampled : [])];

export default defineConfig({
  test: {
    projects: engines.flatMap(({ name }, index) => {
      // The first engine has all tests, those that no engine has anything to do with, too.
      const isHere = (file: string): boolean => !notHere.includes(file) && (index === 0 || ofAnyEngine.includes(file));
      const which = index === 0 ? '' : ` on ${name}`;
      return [
        {
          extends: true,
          test: {
            name: `together${which}`,
            include: together.filter(isHere),
            isolate: false,
            env: { TEST_ENGINE: name },
            globalSetup: ['test/build.ts'],
          },
        },
        {
          extends: true,
          test: {
            name: `apart${which}`,
            include: apart.filter(isHere),
            env: { TEST_ENGINE: name },
            globalSetup: ['test/build.ts', 'test/integration/left-to-ci.ts'],
          },
        },
      ];
    }),
    // More than there are processors, mostly: tests wait for other processes more than they work.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A test that nobody runs is a defect: neither `.only` nor an empty run may pass.
    allowOnly: false,
    passWithNoTests: false,
    // `.ci/run` adds up the tests of several runs.
    reporters: results ? ['default', ['json', { outputFile: results }]] : ['default'],
  },
  resolve: { alias: { 'folder-runner': new URL('./src/index.ts', import.meta.url).pathname } },
});
