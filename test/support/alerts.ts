import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { type CheckReport, runChecks } from '../../src/checks/list.ts';
import { deliverDue } from '../../src/monitor/alert/deliver.ts';
import type { AlertMessage, IncidentDetail } from '../../src/monitor/alert/message.ts';
import { type PrintedIncident, tellIncidents } from '../../src/monitor/alert/tell.ts';
import type { CheckCode, HealthFinding } from '../../src/monitor/finding.ts';
import { policyOf } from '../../src/queue/settle/retry-policy.ts';
import { noteEnd, settleRuns } from '../../src/queue/settle/settle.ts';
import { type ChannelSettings, readChannel } from '../../src/settings/channels.ts';
import { type AlertSettings, type CheckSettings, defaultSettings } from '../../src/settings/settings.ts';
import type { FinishedRun, IncidentRow } from '../../src/store/schema.ts';
import type { DeliveryRow } from '../../src/store/statements/monitor/alerts.ts';
import type { Store } from '../../src/store/store.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { makeFinishedRun, queryLog, watchLog } from './log.ts';
import { MINUTE_MS, START } from './queue.ts';
import { makeTemporaryRoot } from './root.ts';
import { makeStateOf, openStoreOf } from './store.ts';
import type { WrittenLog, WrittenRun } from './written-log.ts';

export const AT = Date.parse('2026-11-22T14:00:00Z');

/** What a server was asked. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Respond = (asked: Asked, response: ServerResponse, count: number) => void;

/** A real server on this machine; gone with the test. */
export async function serve(respond: Respond = (_, response) => void response.end('ok')) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const { method = '', url: path = '', headers } = request;
    const one = { method, path, headers, body: Buffer.concat(pieces).toString('utf8') };
    asked.push(one);
    respond(one, response, asked.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, asked };
}

export function channelOf(input: Readonly<Record<string, unknown>>): ChannelSettings {
  const checked = readChannel(input);
  if ('wrong' in checked) throw new Error(JSON.stringify(checked.wrong));
  return checked.value;
}

export const incident: IncidentDetail = {
  id: 7,
  subject: 'hourly/backup',
  severity: 'critical',
  code: 'script-failing',
  openedAt: AT - 60_000,
  recoveredAt: null,
  ending: null,
  hint: null,
  occurrences: 2,
  lastRun: { id: 41, jobId: 5, outcome: 'failed', startedAt: AT - 5_000, durationMs: 1_200, exitCode: 3, signal: null },
  error: 'exit code 3: disk full',
  output: 'tar: no space left\n',
  usual: 'succeeds in 41 s, 27 of the last 30 times',
  changed: null,
  command: 'npx folder-runner show 41',
  page: null,
};

export function messageOf(...incidents: readonly Partial<IncidentDetail>[]): AlertMessage {
  const all = incidents.length === 0 ? [{}] : incidents;
  return {
    version: 1,
    event: all.length === 1 ? 'opened' : 'digest',
    incidents: all.map((each) => ({ ...incident, ...each })),
    host: 'web3',
    root: '/home/me/site',
  };
}

/** A root with channels, and messages on their way. */
export async function openPlace(
  channels: readonly ChannelSettings[],
  environment: NodeJS.ProcessEnv = {},
  store?: Store,
) {
  const root = makeTemporaryRoot();
  const opened = store ?? (await openStoreOf(root));
  const clock = { now: AT };
  const settings = { ...defaultSettings, alerts: { ...defaultSettings.alerts, channels } };
  const runner = {
    root,
    state: makeStateOf(root),
    settings,
    environment,
    probePath: '',
    version: '0.1.0',
    now: () => clock.now,
  };
  const stop = new AbortController();
  const call = { runner, store: opened, stop: stop.signal };
  const add = async (channel: string, message: AlertMessage = messageOf()) =>
    await opened.deliveries.add([{ kind: 'alert', channel, body: JSON.stringify(message), at: clock.now }]);
  const deliver = async () => await deliverDue(call);
  const waiting = async (): Promise<DeliveryRow[]> => await opened.deliveries.undelivered();
  return { root, store: opened, runner, clock, stop, call, add, deliver, waiting };
}

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A time of day at which no tier begins: a year ahead, so that all files of a test are old. */
export const NOW = Date.UTC(2027, 10, 3, 14, 5);

interface Looked {
  readonly root: string;
  readonly store: Store;
}

export interface Look {
  readonly checks?: CheckSettings;
  readonly at?: number;
  readonly upMs?: number;
}

/** What all checks, or one of them, say of a log at this instant, on a machine that has been up for long. */
export async function look(
  { root, store }: Looked,
  { checks = {}, at = NOW, upMs = 30 * DAY }: Look,
  ...codes: readonly CheckCode[]
): Promise<CheckReport> {
  const place = { root, states: [stateFolderOf(root)] as const, settings: { checks }, nowMs: at, upMs };
  return await (codes.length === 0 ? runChecks(store, place) : runChecks(store, place, codes));
}

/** What is wrong: without its code and cure, which each has. */
export function wrongOf({ findings }: CheckReport): Pick<HealthFinding, 'status' | 'subject' | 'message'>[] {
  return findings
    .filter(({ status }) => status !== 'ok')
    .map(({ status, subject, message }) => ({ status, subject, message }));
}

/** A run that has ended, with what follows for the incidents of its script. */
export async function addSettledRun(
  { store, addRun }: WrittenLog,
  script: string,
  startedAt: number,
  { left_job: leftJob = null, outcome = 'succeeded', reason = null }: WrittenRun = {},
): Promise<number> {
  const runId = await addRun(script, startedAt, { outcome, reason, ...(leftJob && { left_job: leftJob }) });
  const end = makeFinishedRun({ outcome, reason, finished_at: startedAt });
  await store.transaction((session) => noteEnd(session, { script, startedAt, runId, end, leftJob, at: startedAt }));
  return runId;
}

/** What was put on its way to a channel. */
export interface QueuedMessage extends AlertMessage {
  readonly channel: string;
  readonly dueAt: number;
}

/** A log whose scripts end as a test says, at its time, and what people are told of it. */
export interface IncidentPlace {
  readonly root: string;
  readonly store: Store;
  readonly clock: { at: number };
  /** The SHA-256 of all scripts. */
  readonly content: { hash: string | null };
  /** Scripts of one pass that have ended, each by its sentence; null: it has succeeded. */
  pass(ends: Readonly<Record<string, string | null>>, run?: Partial<FinishedRun>): Promise<void>;
  /** What a pass under cron prints. */
  tell(prints?: boolean): Promise<readonly PrintedIncident[]>;
  messages(): QueuedMessage[];
  /** In a word each: `opened hourly/a, hourly/b`. */
  told(): string[];
  incidents(): IncidentRow[];
}

/** None that sends mail: that would take the place of what is printed for cron. */
export function makeChannel(fields: Partial<ChannelSettings> = {}): ChannelSettings {
  const target = 'https://example.org/hook';
  return { name: 'hook', kind: 'webhook', target, options: {}, severity: null, tags: [], ...fields };
}

export async function openIncidentPlace(
  alerts: Partial<AlertSettings> = {},
  files: Readonly<Record<string, string>> = {},
): Promise<IncidentPlace> {
  const root = makeTemporaryRoot({ 'jobs/hourly/notes.txt': '', ...files });
  const store = await openStoreOf(root);
  watchLog(root);
  const clock = { at: START };
  const content: IncidentPlace['content'] = { hash: null };
  const settings = {
    ...defaultSettings,
    alerts: { ...defaultSettings.alerts, channels: [makeChannel()], ...alerts },
  };
  const messages = (): QueuedMessage[] =>
    queryLog<{ channel: string; body: string; due_at: number }>(root, 'select * from deliveries order by id').map(
      ({ channel, body, due_at: dueAt }) => ({ channel, dueAt, ...(JSON.parse(body) as AlertMessage) }),
    );
  let passes = 0;
  return {
    ...{ root, store, clock, content, messages },
    pass: async (ends, run = {}) => {
      passes += 1;
      await settlePass(store, { ends, run, at: clock.at, pass: passes, contentHash: content.hash });
    },
    tell: (prints = false) => tellIncidents(store, { runner: { root, settings, now: () => clock.at }, prints }),
    told: () =>
      messages().map(({ event, incidents }) => `${event} ${incidents.map(({ subject }) => subject).join(', ')}`),
    incidents: () => queryLog<IncidentRow>(root, 'select * from incidents order by id'),
  };
}

interface Pass {
  readonly ends: Readonly<Record<string, string | null>>;
  readonly run: Partial<FinishedRun>;
  readonly at: number;
  readonly pass: number;
  readonly contentHash: string | null;
}

async function settlePass(store: Store, { ends, run, at, pass, contentHash }: Pass): Promise<void> {
  await store.transaction(async (session) => {
    const names = Object.keys(ends);
    const jobs = names.map((name) => ({ name, tier: name.split('/')[0] as string, scheduledFor: null, at }));
    const ids = await session.scriptJobs.enqueue(jobs);
    const claims = ids.map((id) => ({ id, token: `1.${pass * 1_000 + id}` }));
    await session.scriptJobs.claim(claims.map((claim) => ({ ...claim, state: 'running' as const, at })));
    const runs = names.map((script, index) => {
      const claim = claims[index] as (typeof claims)[number];
      const { id: jobId, token: key } = claim;
      const start = {
        jobId,
        workerId: 1,
        key,
        script,
        contentHash,
        attempt: 1,
        scheduledFor: null,
        startedAt: at,
      };
      const reason = ends[script] ?? null;
      const failure = { outcome: 'failed', exit_code: 1, reason, error_message: reason } as const;
      const end = makeFinishedRun({ finished_at: at, ...(reason !== null && failure), ...run });
      const settling = { result: null, decision: null, isRetryable: true, policy: policyOf() };
      return { claim, start: { ...start, timeoutMs: null }, runId: null, end, ...settling };
    });
    await settleRuns(session, runs, { missedCap: 0 });
  }, 'soon');
}

export const DAY_MS = 24 * 60 * MINUTE_MS;
