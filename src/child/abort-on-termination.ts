/** A signal that is aborted by SIGTERM; until it is stopped, SIGTERM does not end the process. */
export function abortOnTermination(): { readonly signal: AbortSignal; stop(): void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  process.once('SIGTERM', abort);
  return { signal: controller.signal, stop: () => process.off('SIGTERM', abort) };
}
