/** Tests that change the machine: as root they add users, start daemons, run the system's jobs. */
export const leftToCi = [
  'test/integration/cron-daemon.test.ts',
  'test/integration/debian-cron-daily.test.ts',
];

/** Set by `.ci/run`, where the machine is there for nothing else. */
export const isMachineOurs = process.env.RUN_INTEGRATION === '1';

/** Said last, so that nobody takes a green run for all there is. */
export function teardown(): void {
  if (isMachineOurs) return;
  const files = leftToCi.join(' and ');
  process.stderr.write(
    `NOT RUN HERE: ${files} need root and a machine of their own; .ci/run runs them.\n`,
  );
}
