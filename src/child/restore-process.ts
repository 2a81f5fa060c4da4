import { runVariableNames } from './run-variables.ts';

/** What a process is before a handler is called, to be so again after it. */
export interface ProcessState {
  restore(): void;
}

/** Listeners of these change how the process ends: one that is left, or is gone, would do so for others' jobs. */
const endingEvents = ['SIGTERM', 'SIGINT', 'SIGHUP', 'uncaughtException', 'unhandledRejection'];

/** Listeners of these tidy up: one more is welcome. */
const lastEvents = ['beforeExit', 'exit'];

/**
 * Takes down what a handler must not change for the next one: variables, current folder, umask, exit
 * code, listeners that decide over the process's end.
 */
export function keepProcessState(): ProcessState {
  const cwd = process.cwd();
  const umask = process.umask();
  const variables = readVariables();
  const listeners = [...endingEvents, ...lastEvents].map(
    (event) => [event, process.listeners(asSignal(event))] as const,
  );
  return {
    restore: () => {
      if (process.cwd() !== cwd) process.chdir(cwd);
      if (process.umask() !== umask) process.umask(umask);
      process.exitCode = undefined;
      restoreVariables(variables);
      for (const [event, before] of listeners) restoreListeners(event, before);
    },
  };
}

/** The types know each event by itself. */
const asSignal = (event: string): 'SIGTERM' => event as 'SIGTERM';

function restoreListeners(event: string, before: readonly NodeJS.SignalsListener[]): void {
  const signal = asSignal(event);
  for (const listener of before) {
    if (process.listenerCount(signal, listener) === 0) process.on(signal, listener);
  }
  // A list of them would be made for each job.
  if (process.listenerCount(signal) === before.length || lastEvents.includes(event)) return;
  for (const listener of process.listeners(signal)) {
    if (!before.includes(listener)) process.off(signal, listener);
  }
}

function restoreVariables(before: NodeJS.ProcessEnv): void {
  const now = readVariables();
  for (const name of Object.keys(now)) if (!Object.hasOwn(before, name)) delete process.env[name];
  for (const [name, value] of Object.entries(before)) {
    if (now[name] !== value) process.env[name] = value;
  }
}

const areSetAnew = new Set(runVariableNames);

/** Without those that are set anew for each job. Reading one is a call into the system's library. */
function readVariables(): NodeJS.ProcessEnv {
  const variables: NodeJS.ProcessEnv = {};
  for (const name of Object.keys(process.env)) {
    if (!areSetAnew.has(name)) variables[name] = process.env[name];
  }
  return variables;
}
