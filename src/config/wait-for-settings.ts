import { writeSync } from 'node:fs';

/** Long enough to fetch a password over the network. */
const LONGEST_MS = 30_000;

const UNSETTLED = 'outside of functions it awaits what never happens';

/**
 * Settings are code: they may wait for what never comes, or end the process. Either would look as if
 * there had been nothing to do.
 *
 * @throws {Error} that says so
 */
export async function waitForSettings<T>(
  name: string,
  loading: Promise<T>,
  longestMs = LONGEST_MS,
): Promise<T> {
  let giveUp = (_why: string): void => {};
  const givenUp = new Promise<never>((_, reject) => {
    giveUp = (why) => reject(new Error(why));
  });
  const onIdle = () => giveUp(UNSETTLED);
  // A turn later: a process that stood still finds both its time over and its settings loaded.
  const onLate = () => setImmediate(giveUp, `${UNSETTLED}, or not within ${longestMs} ms`);
  const onExit = () => tellExit(name);
  const timer = setTimeout(onLate, longestMs).unref();
  process.once('beforeExit', onIdle).once('exit', onExit);
  try {
    return await Promise.race([loading, givenUp]);
  } finally {
    clearTimeout(timer);
    process.off('beforeExit', onIdle).off('exit', onExit);
  }
}

function tellExit(name: string): void {
  writeSync(2, `runner: ${name} cannot be loaded: it ends the process (process.exit)\n`);
  process.exitCode = 2;
}
