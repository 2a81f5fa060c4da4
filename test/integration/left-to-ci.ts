import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'glob';
import { SHARE } from '../faults/rounds.ts';

const project = join(import.meta.dirname, '../..');

/**
 * Tests that change the machine: as root they add users, mount disks, start daemons, run the system's
 * jobs. And those that need Debian's packages.
 */
export const leftToCi = [
  'test/integration/cron-daemon.test.ts',
  'test/integration/debian-cron-daily.test.ts',
  'test/integration/first-hour.test.ts',
  'test/integration/old-sqlite.test.ts',
  'test/integration/php.test.ts',
  // Of two servers each, one of them Debian's.
  'test/move/move-log.test.ts',
  'test/worker/database-away.test.ts',
  ...globSync('test/faults/*.root.test.ts', { cwd: project }).sort(),
];

/** Set by `.ci/run`, where the machine is there for nothing else. */
export const isMachineOurs = process.env.RUN_INTEGRATION === '1';

/** A runner is killed at every point, and what is left to chance is tried often. */
const areAllPointsHit = process.env.FAULT_POINTS === 'all';

/** Set by `.ci/run`: the same, but of points at the same place in the code one is hit. */
const areAllPlacesHit = process.env.FAULT_POINTS === 'places';

/** Set by `.ci/run` where it does that in a stage of its own. */
export const areNoPointsHit = process.env.FAULT_POINTS === 'none';

/** Tests of which there is a sample. */
export const sampled = globSync('test/faults/*.test.ts', { cwd: project })
  .filter((file) => readFileSync(join(project, file), 'utf8').includes("from './rounds.ts'"))
  .sort();

/** Another one each day, so that the points that are hit change; to be given to see a failure again. */
export function setup(): void {
  process.env.FAULT_SEED ??= String(Math.floor(Date.now() / 86_400_000));
}

/** Said last, so that nobody takes a green run for all there is. */
export function teardown(): void {
  if (!isMachineOurs) {
    const files = leftToCi.join(', ');
    tell(`NOT RUN HERE: ${files} need root, Debian packages and a machine of their own; .ci/run runs them.`);
  }
  const seed = `FAULT_SEED=${process.env.FAULT_SEED}`;
  if (areNoPointsHit) {
    tell(`NOT RUN HERE: ${sampled.join(', ')}: .ci/run runs them in a stage of its own.`);
  } else if (areAllPlacesHit) {
    tell(
      `EACH PLACE ONCE: of the fault points at the same place in the code, after the same one, ${seed} chooses the ` +
        'one that is hit, and the scenario; FAULT_POINTS=all hits every one.',
    );
  } else if (!areAllPointsHit) {
    tell(
      `A SAMPLE HERE: test/faults/ hits one of ${SHARE} fault points, those of ${seed}, and tries chance less ` +
        'often; FAULT_POINTS=places hits one at each place in the code, as .ci/run does, and FAULT_POINTS=all every one.',
    );
  }
}

function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}
