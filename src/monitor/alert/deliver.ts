import type { Runner } from '../../settings/settings.ts';
import type { DeliveryRow } from '../../store/statements/monitor/alerts.ts';
import type { Store } from '../../store/store.ts';
import type { DeliveryKind } from '../../store/words.ts';
import { printableLine } from '../../system/base/text.ts';
import { failed, type Sent, siteOf } from './channels/sent.ts';
import { type AlertMessage, readQueuedAlert } from './message.ts';

/** One invocation at sending. */
export interface DeliveryCall {
  readonly runner: Runner;
  readonly store: Store;
  /** Aborted when the runner is told to stop: what is under way is tried again by the next one. */
  readonly stop: AbortSignal;
  /** Told of each alert that a mail channel could not send at its first try. */
  readonly onUnsent?: (unsent: UnsentMail) => void;
}

/** An alert that is not in anybody's mailbox yet. */
export interface UnsentMail {
  readonly channel: string;
  readonly message: AlertMessage;
  /** Why, in one sentence. */
  readonly reason: string;
}

/** Sends one row of `deliveries`. */
export type Deliver = (call: DeliveryCall, row: DeliveryRow, signal: AbortSignal) => Promise<Sent>;

/** So long one message may take, and all of an invocation: a crontab line's process must not hang. */
const LONGEST_SEND_MS = 10_000;
const LONGEST_ALL_MS = 20_000;

/** Longer than any send: who finds a row due again knows that its sender has died. */
const CLAIM_MS = 60_000;

const AT_ONCE = 4;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Before the second try, the third … */
const waits = [MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS];
const GIVE_UP_MS = 3 * DAY_MS;
/** What is refused for good is tried again twice: somebody may be at work on the other side. */
const MOST_REFUSALS = 3;
const LONGEST_RETRY_AFTER_MS = DAY_MS;

/** What was given up stays visible for so long. */
const KEEP_MS = 30 * DAY_MS;

/**
 * Sends what is due of `deliveries`, the oldest first, a few at a time, for 20 s at most. What cannot be sent is
 * tried again by later invocations for three days, or given up. It arrives at least once: who dies between sending
 * and removing its row sends it again, with the same id.
 */
export async function deliverDue(call: DeliveryCall): Promise<void> {
  const { store, runner, stop } = call;
  const until = performance.now() + LONGEST_ALL_MS;
  const over = AbortSignal.any([stop, AbortSignal.timeout(LONGEST_ALL_MS)]);
  while (!over.aborted && performance.now() < until - LONGEST_SEND_MS) {
    const at = runner.now();
    const rows = await store.transaction(({ deliveries }) => deliveries.claim(at, at + CLAIM_MS, AT_ONCE));
    if (rows.length === 0) break;
    await Promise.all(rows.map((row) => deliverRow(call, row, over)));
  }
  await store.deliveries.prune(runner.now() - KEEP_MS);
}

async function deliverRow(call: DeliveryCall, row: DeliveryRow, over: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([over, AbortSignal.timeout(LONGEST_SEND_MS)]);
  const sent = await sendRow(call, row, signal);
  if (!sent.ok) {
    tellUnsent(call, row, sent.reason);
    return await putBack(call, row, sent);
  }
  const { store, runner } = call;
  await store.transaction(async (session) => {
    await session.deliveries.remove(row.id);
    if (sent.refused === undefined) return;
    const detail = `${row.kind} by ${row.channel}: refused for ${sent.refused}`;
    await session.events.record([{ at: runner.now(), event: 'alert-undelivered', detail }]);
  });
}

/** Nothing else tells of it then: cron's mail has left it to the channel. */
function tellUnsent(
  { runner, onUnsent }: DeliveryCall,
  { kind, channel: name, body, reason: before }: DeliveryRow,
  reason: string,
): void {
  if (kind !== 'alert' || before !== null) return;
  const channel = runner.settings.alerts.channels.find((each) => each.name === name);
  // One that the settings no longer have may have been a mail.
  if (channel !== undefined && channel.kind !== 'mail') return;
  const message = readQueuedAlert(body);
  if (message !== null) onUnsent?.({ channel: name, message, reason });
}

async function sendRow(call: DeliveryCall, row: DeliveryRow, signal: AbortSignal): Promise<Sent> {
  try {
    return await (await senderOf(row.kind))(call, row, signal);
  } catch (error) {
    // A defect in one channel must not keep the others from being told.
    return failed(`it could not be sent: ${error instanceof Error ? error.message : error}`);
  }
}

async function senderOf(kind: DeliveryKind): Promise<Deliver> {
  if (kind === 'alert') return deliverAlert;
  if (kind === 'ping') return deliverPing;
  return (await import('./report-mail.ts')).deliverReport;
}

const deliverAlert: Deliver = async ({ runner }, row, signal) => {
  const { root, version, environment, settings } = runner;
  const channel = settings.alerts.channels.find(({ name }) => name === row.channel);
  if (channel === undefined) return failed(`the settings have no channel ${row.channel} any more`);
  const message = readQueuedAlert(row.body);
  if (message === null) return failed('its body is no alert', true);
  const outgoing = { id: idOf(root, row), createdAt: row.createdAt, message };
  const { sendByChannel } = await import('./channels/send.ts');
  return await sendByChannel(channel, outgoing, { root, version, environment, settings, signal });
};

const deliverPing: Deliver = async ({ runner }, { channel: subject, body }, signal) => {
  const { root, version, environment, settings } = runner;
  const { readQueuedPing, sendPing } = await import('./channels/ping.ts');
  const url = await findPingUrl(runner, subject);
  if (url === null) return failed(`neither the settings nor a tag name a ping URL of ${printableLine(subject)} here`);
  return await sendPing({ ...readQueuedPing(body), url }, { root, version, environment, settings, signal });
};

/** Where a script or a tier wants its pings sent, as their files say it now; null: nowhere. */
async function findPingUrl({ root, settings }: Runner, subject: string): Promise<string | null> {
  const [tier = '', script] = subject.split('/');
  if (script === undefined) return settings.tiers[tier]?.ping ?? null;
  const { discover } = await import('../../discovery/discover.ts');
  const { tiers, elsewhere } = await discover(root, settings, { tier });
  const scripts = [...tiers.flatMap((each) => each.scripts), ...elsewhere];
  return scripts.find(({ name }) => name === subject)?.options.ping ?? null;
}

/** The same at each try, and no other message of any root has it. */
export function idOf(root: string, { id, createdAt }: Pick<DeliveryRow, 'id' | 'createdAt'>): string {
  return `runner-${siteOf(root)}-${createdAt.toString(36)}-${id}`;
}

async function putBack(call: DeliveryCall, row: DeliveryRow, sent: Sent & { readonly ok: false }): Promise<void> {
  const { store, runner } = call;
  const at = runner.now();
  const dueAt = nextTryAt(row, sent, at);
  await store.transaction(async (session) => {
    await session.deliveries.postpone(row.id, dueAt, sent.reason);
    if (dueAt !== null) return;
    const detail = `${row.kind} by ${row.channel}, tried ${row.attempts} times: ${sent.reason}`;
    await session.events.record([{ at, event: 'alert-undelivered', detail }]);
  });
}

/** @returns null: it is given up */
export function nextTryAt(
  { attempts, createdAt }: Pick<DeliveryRow, 'attempts' | 'createdAt'>,
  { isPermanent, retryAfterMs }: Pick<Sent & { readonly ok: false }, 'isPermanent' | 'retryAfterMs'>,
  at: number,
): number | null {
  if (isPermanent && attempts >= MOST_REFUSALS) return null;
  const waitMs = waits[Math.min(attempts, waits.length) - 1] ?? MINUTE_MS;
  const dueAt = at + Math.max(waitMs, Math.min(retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS));
  return dueAt - createdAt > GIVE_UP_MS ? null : dueAt;
}
