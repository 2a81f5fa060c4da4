/**
 * An area of the contract as SQLite answers it: at once. The connection sees to it that statements come
 * one after the other; who asks waits for its turn, not for an answer.
 */
export type Sync<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => Promise<infer R> ? (...args: A) => R : never;
};

/** Makes an area that answers at once one that answers when its turn has come. */
export function asAsync<T extends object>(area: Sync<T>, call: <R>(work: () => R) => Promise<R>): T {
  const made: Record<string, unknown> = {};
  for (const [name, method] of Object.entries(area)) {
    const ask = method as (...args: unknown[]) => unknown;
    made[name] = (...args: unknown[]) => call(() => ask(...args));
  }
  return made as T;
}

/** An area that an invocation with nothing to do never asks: its code is loaded with the first question. */
export function asLazy<T extends object>(load: () => Promise<Sync<T>>, call: <R>(work: () => R) => Promise<R>): T {
  let loaded: T | null = null;
  const ask = async (name: string, args: readonly unknown[]): Promise<unknown> => {
    loaded ??= asAsync(await load(), call);
    const method = (loaded as Record<string, (...args: readonly unknown[]) => Promise<unknown>>)[name];
    if (method === undefined) throw new TypeError(`the store has no method ${name}`);
    return await method(...args);
  };
  return new Proxy({} as T, {
    get:
      (_, name) =>
      (...args: readonly unknown[]) =>
        ask(String(name), args),
  });
}
