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
import { describeUntested, suites } from './test/kinds.ts';

const results = process.env.VITEST_RESULTS;

/** Another one each day, so that the points that are hit change; to be given to see a failure again. */
process.env.FAULT_SEED ??= String(Math.floor(Date.now() / 86_400_000));

const turns = suites.map(({ name }) => name);

/** A process is handed on only to the next file of the same project. */
class KindByKind extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const turnOf = ({ project }: TestSpecification): number => turns.indexOf(project.name);
    return sorted.toSorted((one, other) => turnOf(one) - turnOf(other));
  }
}

/** Who reads the last lines of a run must not believe that more was tested. */
class NamesUntested implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const ran = new Set(modules.map(({ project }) => project.name));
    for (const line of describeUntested([...ran])) console.log(line);
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

export default defineConfig({
  test: {
    projects: suites.map(({ name, kind, engine, include }) => ({
      extends: true,
      test: {
        name,
        include: [...include],
        isolate: !kind.sharesProcesses,
        env: { TEST_ENGINE: engine },
        globalSetup: ['build.ts', ...(engine === 'sqlite' ? [] : ['test/support/engines/start-servers.ts'])],
      },
    })),
    // More than there are processors: tests wait for other processes more than they work.
    maxWorkers: availableParallelism() + 2,
    sequence: { sequencer: KindByKind },
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
