import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { HandlerJob } from '../../src/child/contract.ts';
import { discover } from '../../src/discovery/discover.ts';
import { openHandlers } from '../../src/discovery/handlers.ts';
import type { Script } from '../../src/discovery/script.ts';
import type { RunEnd } from '../../src/execution/result/result.ts';
import { runScript } from '../../src/execution/script/run-script.ts';
import { findSecrets, type Masker, maskSecrets } from '../../src/execution/secrets.ts';
import type { HandlerRequest, RunRequest } from '../../src/execution/start/process.ts';
import {
  type BegunEnd,
  createHandlerRunners,
  type HandlerRunner,
  type HandlerRunnerOptions,
} from '../../src/execution/warm/run.ts';
import { defaultSettings, type ScriptOptions, type Settings } from '../../src/settings/settings.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../src/system/place/state-folder.ts';
import type { StoreInvocation } from '../../src/worker/invocation/invocation.ts';
import { createStopRequest, createWorkerEvents } from '../../src/worker/invocation/invocation.ts';
import { type Ended, nodeCache, probePath } from './command.ts';
import { type FileContent, makeTemporaryRoot } from './root.ts';
import { makeStateOf, openStoreOf } from './store.ts';

/** Of what these settings and variables hold. */
export function createMasker(...known: Parameters<typeof findSecrets>): Masker {
  return maskSecrets(findSecrets(...known));
}

/** A script as discovery finds it, for tests that never start it. */
export function makeScript(name: string, options: ScriptOptions = {}): Script {
  return {
    name,
    tier: name.slice(0, name.indexOf('/')),
    path: `/nowhere/jobs/${name}.sh`,
    launch: { kind: 'program', command: [`/nowhere/jobs/${name}.sh`] },
    options,
    contentHash: 'ab'.repeat(32),
    refusals: [],
    warnings: [],
  };
}

/** Runs one script as a pass does, but with the limits that a test needs. */
export async function runOne(name: string, content: FileContent, overrides: Partial<RunRequest> = {}): Promise<RunEnd> {
  return await runScript(await requestRun(name, content, overrides));
}

/** A root with this one script, ready to be run. */
export async function requestRun(
  name: string,
  content: FileContent,
  overrides: Partial<RunRequest> = {},
): Promise<RunRequest> {
  const root = makeTemporaryRoot({ [`jobs/hourly/${name}`]: content });
  const { tiers } = await discover(root, defaultSettings, { tier: 'hourly' });
  const script = tiers[0]?.scripts[0];
  if (script === undefined) throw new Error(`${name} is no script.`);
  const state = stateFolderOf(root);
  createStateFolder(state);
  return {
    key: '1.1',
    script,
    root,
    state,
    probePath,
    attempt: 1,
    scheduledFor: 0,
    latenessMs: 0,
    lastSuccess: null,
    previouslyCrashed: false,
    timeoutMs: 30_000,
    graceMs: 10_000,
    maxOutputBytes: defaultSettings.maxOutputBytes,
    variables: {},
    environment: { HOME: root },
    masker: createMasker({ env: overrides.variables ?? {}, secrets: [] }, overrides.environment ?? {}),
    stop: new AbortController().signal,
    onStarted: () => {},
    ...overrides,
  };
}

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

const jobs = new URL('../../jobs/', import.meta.url).pathname;

/** Calls a script's default function, if it has one, as the runner does. */
const HOST = `
  const { default: job } = await import(process.argv[1]);
  await job?.({ signal: new AbortController().signal, log: console.log });
`;

/**
 * The real script in a Node of its own, without the runner around it. Not blocking: what the script
 * talks to may live in the test.
 */
export async function runShippedJob(
  name: string,
  cwd: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const args = ['--input-type=module', '--eval', HOST, '--', join(jobs, name)];
  const child = spawn(process.execPath, args, {
    cwd,
    env: { HOME: join(cwd, 'home'), PATH: '/usr/bin:/bin', RUNNER_ROOT: cwd, ...nodeCache, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 50_000,
  });
  const [stdout, stderr, status] = await Promise.all([
    readAll(child.stdout),
    readAll(child.stderr),
    new Promise<number | null>((resolve) => child.once('close', resolve)),
  ]);
  return { status, stdout, stderr };
}

async function readAll(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** A call that has a root's log, as `runner work` makes one. */
export async function makeLoggedCall(root: string, settings: Partial<Settings> = {}): Promise<StoreInvocation> {
  return {
    runner: {
      root,
      state: makeStateOf(root),
      settings: { ...defaultSettings, ...settings },
      environment: {},
      probePath,
      version: '0.1.0',
      now: Date.now,
    },
    trigger: 'manual',
    stop: createStopRequest(),
    events: createWorkerEvents(),
    budget: null,
    store: await openStoreOf(root),
    orphans: [],
    spooledTiers: new Set(),
  };
}
