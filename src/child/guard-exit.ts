type Exit = typeof process.exit;

/**
 * Has `process.exit()` throw where the caller has no say any more.
 *
 * @returns the one that always ends the process
 */
export function guardExit(mayExit: () => boolean): Exit {
  const exit: Exit = process.exit.bind(process);
  process.exit = (code) => {
    if (mayExit()) exit(code);
    throw new Error(`process.exit(${code ?? ''}) was called`);
  };
  // Who listens to the process's end may call it again.
  process.prependListener('exit', () => {
    process.exit = exit;
  });
  return exit;
}
