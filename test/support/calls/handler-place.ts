import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { HandlerJob } from '../../../src/child/contract.ts';
import { openHandlers } from '../../../src/discovery/handlers.ts';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import type { HandlerRequest } from '../../../src/execution/start/process.ts';
import {
  type BegunEnd,
  createHandlerRunners,
  type HandlerRunner,
  type HandlerRunnerOptions,
} from '../../../src/execution/warm/run.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { type FileContent, makeTemporaryRoot } from '../places/temporary-root.ts';
import { makeStateOf } from '../queue/state-of.ts';
import { createMasker } from './create-masker.ts';
import { probePath } from './run-command.ts';

const MB = 1024 * 1024;

/** What a test says of a job and its run; the rest is usual. */
export interface PlaceRequest extends Partial<Omit<HandlerRequest, 'job'>> {
  readonly job?: Partial<HandlerJob>;
  readonly data?: unknown;
}

/** A root with handlers, and what runs them one after the other, as an executor of a worker does. */
export interface HandlerPlace {
  readonly root: string;
  readonly state: StateFolder;
  readonly runner: HandlerRunner;
  /** The processes in which runs were, in their order. */
  readonly pids: number[];
  run(name: string, request?: PlaceRequest): Promise<RunEnd>;
  request(name: string, request?: PlaceRequest): Promise<HandlerRequest>;
}

/** @param handlers files of `jobs/queue`, others by `../` */
export function openPlace(
  handlers: Readonly<Record<string, FileContent>>,
  options: Partial<HandlerRunnerOptions> = {},
): HandlerPlace {
  const files = Object.entries(handlers).map(([name, file]) => [join('jobs/queue', name), file]);
  const root = makeTemporaryRoot(Object.fromEntries(files));
  const state = makeStateOf(root);
  const usual = { childJobs: 100_000, childMemoryBytes: 512 * MB, hasRoom: () => true };
  const [runner] = createHandlerRunners(1, { ...usual, ...options }) as [HandlerRunner];
  onTestFinished(() => runner.close());
  const pids: number[] = [];
  let runs = 0;
  const request = async (name: string, asked: PlaceRequest = {}): Promise<HandlerRequest> => {
    const script = (await openHandlers(root, defaultSettings)).find(name);
    if (script === null) throw new Error(`There is no handler ${name}.`);
    runs += 1;
    const job = jobOf(name, asked);
    return { ...job, ...usualRequest(root, state, asked), key: `1.${runs}`, script, ...asked, job };
  };
  return {
    root,
    state,
    runner,
    pids,
    request,
    run: async (name, asked = {}) => {
      const made = await request(name, { onStarted: (pid) => pids.push(pid), ...asked });
      const end = await runAlone(runner, made);
      runner.removeFiles(state, made.key);
      return end;
    },
  };
}

/** Runs one job, as an executor does whose other jobs are all in the log. */
export async function runAlone(runner: HandlerRunner, request: HandlerRequest): Promise<RunEnd> {
  const [begun] = await runner.run({ requests: [request], unsettled: new Set() });
  return (begun as BegunEnd).end;
}

/** The same with one handler that does what any of these would: jobs of one process differ by what they do in it. */
export function openOneHandler(
  parts: Readonly<Record<string, string>>,
  options: Partial<HandlerRunnerOptions> = {},
): HandlerPlace {
  const names = Object.keys(parts);
  const files = names.map((name) => [`_${name}.mjs`, parts[name] as string]);
  const imports = names.map((name) => `import ${name} from './_${name}.mjs';\n`).join('');
  const code = `${imports}export default (job) => ({ ${names.join(', ')} })[job.name.split('?')[1]](job);\n`;
  const place = openPlace({ ...Object.fromEntries(files), 'any.mjs': code }, options);
  return {
    ...place,
    run: (name, asked) => place.run(`any?${name}`, asked),
    request: (name, asked) => place.request(`any?${name}`, asked),
  };
}

function usualRequest(root: string, state: StateFolder, { variables, environment }: PlaceRequest) {
  return {
    root,
    state,
    probePath,
    timeoutMs: 30_000,
    graceMs: 10_000,
    maxOutputBytes: defaultSettings.maxOutputBytes,
    variables: {},
    environment: { HOME: root },
    masker: createMasker({ env: variables ?? {}, secrets: [] }, environment ?? {}),
    stop: new AbortController().signal,
    onStarted: () => {},
    onUpdate: () => {},
  };
}

function jobOf(name: string, { data = {}, job = {} }: PlaceRequest): HandlerJob {
  return {
    id: 7,
    name,
    data: JSON.stringify(data),
    attempt: 1,
    scheduledFor: null,
    startedAt: Date.UTC(2026, 10, 21, 12),
    latenessMs: 0,
    lastSuccess: null,
    previouslyCrashed: false,
    parentData: null,
    children: null,
    ...job,
  };
}
