import { mysql, postgres } from './dialects.ts';
import type { Engine } from './engine.ts';
import { sqlite } from './sqlite.ts';

export type { Engine, LogConnection, LogReader } from './engine.ts';

/** The first has all tests; the others have those that hold whatever keeps the log. */
export const engines: readonly Engine[] = [sqlite, postgres, mysql];

/** The one that is tested by this process, and by what it starts. */
export const engine = engines.find(({ name }) => name === process.env.TEST_ENGINE) ?? sqlite;

const { TEST_ENGINES = process.env.TEST_MYSQL_URL ? 'sqlite,postgres,mysql' : 'sqlite,postgres' } = process.env;

/** Those that a run of the tests is about: `TEST_ENGINES` names others. */
export const testedEngines = engines.filter(({ name }) => TEST_ENGINES.split(',').includes(name));

/** What a run says of the others, and of what only those have that were asked for. */
export const untested: readonly string[] = [
  ...(process.env.TEST_ENGINES === undefined
    ? ['postgres: most of conformance and of store alone; TEST_ENGINES=sqlite,postgres tests all that is about a log']
    : []),
  ...engines
    .filter((one) => !testedEngines.includes(one))
    .map(({ name }) => {
      const cure = name === 'mysql' ? 'TEST_MYSQL_URL, such as mysql://user:password@127.0.0.1' : 'TEST_ENGINES';
      return `${name}: NOT TESTED, set ${cure}`;
    }),
];
