import type { StoreSession } from '../contract/store.ts';
import { eventsOf } from '../statements/events.ts';
import { jobsOf } from '../statements/jobs.ts';
import { choresOf, deliveriesOf } from '../statements/monitor/alerts.ts';
import { pausesOf } from '../statements/pauses.ts';
import { runsOf } from '../statements/runs.ts';
import { scriptJobsOf } from '../statements/script-jobs.ts';
import { workersOf } from '../statements/workers.ts';
import type { Statements } from './sql/statements.ts';

/** Does work when its turn has come, and waits for its end. */
export type InTurn = (work: () => unknown) => Promise<unknown>;

type Methods = Record<string, (...args: readonly unknown[]) => unknown>;

/** Each question to the area waits for its turn. */
export function asAsync<T extends object>(area: T, inTurn: InTurn): T {
  const made: Record<string, unknown> = {};
  for (const [name, method] of Object.entries(area as Methods)) {
    made[name] = (...args: unknown[]) => inTurn(() => method(...args));
  }
  return made as T;
}

/** The same of an area that an invocation with nothing to do never asks: its code is loaded with the first question. */
export function asLazy<T extends object>(load: () => Promise<T>, inTurn: InTurn): T {
  let loaded: Promise<T> | null = null;
  const ask = async (name: string, args: readonly unknown[]): Promise<unknown> => {
    loaded ??= load();
    const area = (await loaded) as Methods;
    return await inTurn(() => area[name]?.(...args));
  };
  return new Proxy({} as T, {
    // An area that is awaited by mistake must not be asked for `then`.
    get: (_, name) => (name === 'then' ? undefined : (...args: readonly unknown[]) => ask(String(name), args)),
  });
}

/** The areas whose statements are the same on every engine. */
export function areasOf(db: Statements, inTurn: InTurn) {
  return {
    pauses: asAsync(pausesOf(db), inTurn),
    scriptJobs: asAsync(scriptJobsOf(db), inTurn),
    workers: asAsync(workersOf(db), inTurn),
    jobs: asAsync(jobsOf(db), inTurn),
    runs: asAsync(runsOf(db), inTurn),
    events: asAsync(eventsOf(db), inTurn),
    tokens: asLazy(async () => (await import('../statements/registers.ts')).apiTokensOf(db), inTurn),
    chores: asAsync(choresOf(db), inTurn),
    deliveries: asAsync(deliveriesOf(db), inTurn),
    incidents: asLazy(async () => (await import('../statements/monitor/incidents.ts')).incidentsOf(db), inTurn),
    machines: asLazy(async () => (await import('../statements/registers.ts')).machinesOf(db), inTurn),
    metrics: asLazy(async () => (await import('../statements/monitor/metrics.ts')).metricsOf(db), inTurn),
    telemetry: asLazy(async () => (await import('../statements/monitor/telemetry.ts')).telemetryOf(db), inTurn),
    usual: asLazy(async () => (await import('../statements/monitor/usual.ts')).usualOf(db), inTurn),
  } satisfies Partial<StoreSession>;
}
