import type { AlertMessage } from '../../../src/monitor/alert/message.ts';
import { type PrintedIncident, tellIncidents } from '../../../src/monitor/alert/tell.ts';
import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import { settleRuns } from '../../../src/queue/settle/settle.ts';
import type { ChannelSettings } from '../../../src/settings/channels.ts';
import { type AlertSettings, defaultSettings } from '../../../src/settings/settings.ts';
import type { FinishedRun, IncidentRow } from '../../../src/store/schema.ts';
import type { Store } from '../../../src/store/store.ts';
import { makeFinishedRun } from '../log/finished-run.ts';
import { queryLog, watchLog } from '../log/open-log.ts';
import { makeTemporaryRoot } from '../places/temporary-root.ts';
import { openStoreOf } from '../queue/state-of.ts';
import { MINUTE_MS, START } from '../queue/test-queue.ts';

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
