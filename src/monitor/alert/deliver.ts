import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { discover } from '../../discovery/discover.ts';
import { optionsOfExec } from '../../discovery/exec.ts';
import type { ChannelSettings } from '../../settings/channels.ts';
import { ownEnvironment, type Runner } from '../../settings/settings.ts';
import type { DeliveryRow } from '../../store/statements/monitor/alerts.ts';
import type { Store } from '../../store/store.ts';
import type { DeliveryKind } from '../../store/words.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { printableLine } from '../../system/base/text.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { readQueuedPing, sendByChannel, sendMailBy, sendPing, siteOf } from './channels.ts';
import type { MailContent } from './mail.ts';
import { type AlertMessage, readQueuedAlert } from './message.ts';
import { failed, type Sent } from './transport.ts';

interface DeliveryCall {
  readonly runner: Runner;
  readonly store: Store;
  /** Aborted when the runner must stop: the next invocation sends the rest. */
  readonly stop: AbortSignal;
  /** Called for each alert that a mail channel could not send at its first try. */
  readonly onUnsent?: (unsent: UnsentMail) => void;
}

/** An alert that is in nobody's mailbox yet. */
export interface UnsentMail {
  readonly channel: string;
  readonly message: AlertMessage;
  /** One sentence. */
  readonly reason: string;
}

/** Longest time for one message, and for all of an invocation: a crontab line's process must not hang. */
const LONGEST_SEND_MS = 10_000;
const LONGEST_ALL_MS = 20_000;

/** Longer than any send: if a claimed row is due again, its sender has died. */
const CLAIM_MS = 60_000;

const AT_ONCE = 4;

/** Times before the second try, the third … */
const waits = [MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS];
const GIVE_UP_MS = 3 * DAY_MS;
/** A permanent refusal is tried again twice: somebody may be at work on the other side. */
const MOST_REFUSALS = 3;
const LONGEST_RETRY_AFTER_MS = DAY_MS;

/** How long a message that was given up stays visible. */
const KEEP_MS = 30 * DAY_MS;

/**
 * Sends the due rows of `deliveries`, the oldest first, a few at a time, for 20 s at most. Later invocations try again
 * for three days. A message arrives at least once: if its sender dies before it removes the row, the next one sends it
 * again, with the same id.
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
  const { store, runner } = call;
  const sent = await sendRow(runner, row, AbortSignal.any([over, AbortSignal.timeout(LONGEST_SEND_MS)]));
  if (!sent.ok) reportUnsent(call, row, sent.reason);
  const at = runner.now();
  const dueAt = sent.ok ? null : nextTryAt(row, sent, at);
  const failure = sent.ok ? sent.refused && `refused for ${sent.refused}` : sent.reason;
  const tries = sent.ok ? '' : `, tried ${row.attempts} times`;
  await store.transaction(async (session) => {
    if (sent.ok) await session.deliveries.remove(row.id);
    else await session.deliveries.postpone(row.id, dueAt, sent.reason);
    if (failure === undefined || dueAt !== null) return;
    const detail = `${row.kind} by ${row.channel}${tries}: ${failure}`;
    await session.events.record([{ at, event: 'alert-undelivered', detail }]);
  });
}

/** Reports an alert that cron's mail has left to a mail channel. */
function reportUnsent(
  { runner, onUnsent }: DeliveryCall,
  { kind, channel: name, body, reason: before }: DeliveryRow,
  reason: string,
): void {
  if (kind !== 'alert' || before !== null) return;
  const channel = runner.settings.alerts.channels.find((each) => each.name === name);
  // A channel that the settings no longer have may have been a mail.
  if (channel !== undefined && channel.kind !== 'mail') return;
  const message = readQueuedAlert(body);
  if (message !== null) onUnsent?.({ channel: name, message, reason });
}

/** @returns null: the message is given up */
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

type Send = (runner: Runner, row: DeliveryRow, signal: AbortSignal) => Promise<Sent>;

const senders: Readonly<Record<DeliveryKind, Send>> = { alert: sendAlert, ping: sendQueuedPing, report: deliverReport };

async function sendRow(runner: Runner, row: DeliveryRow, signal: AbortSignal): Promise<Sent> {
  try {
    return await senders[row.kind](runner, row, signal);
  } catch (error) {
    // A defect in one channel must not keep the others from being told.
    return failed(`it could not be sent: ${error instanceof Error ? error.message : error}`);
  }
}

async function sendAlert(runner: Runner, row: DeliveryRow, signal: AbortSignal): Promise<Sent> {
  const channel = runner.settings.alerts.channels.find(({ name }) => name === row.channel);
  if (channel === undefined) return failed(describeGone(row));
  const message = readQueuedAlert(row.body);
  if (message === null) return failed('its body is no alert', true);
  const outgoing = { id: idOf(runner.root, row), createdAt: row.createdAt, message };
  return await sendByChannel(channel, outgoing, { ...runner, signal });
}

function describeGone({ channel }: DeliveryRow): string {
  return `the settings have no channel ${channel} any more`;
}

/** The id of a message, the same at each try. Messages of other roots have other ids. */
export function idOf(root: string, { id, createdAt }: Pick<DeliveryRow, 'id' | 'createdAt'>): string {
  return `runner-${siteOf(root)}-${createdAt.toString(36)}-${id}`;
}

async function sendQueuedPing(runner: Runner, { channel: subject, body }: DeliveryRow, signal: AbortSignal) {
  const url = await findPingUrl(runner, subject);
  if (url === null) return failed(`neither the settings nor a tag name a ping URL of ${printableLine(subject)} here`);
  return await sendPing({ ...readQueuedPing(body), url }, { ...runner, signal });
}

/** The present ping URL of a script or a tier; null: it has none. */
async function findPingUrl({ root, settings }: Runner, subject: string): Promise<string | null> {
  const [tier = '', script] = subject.split('/');
  if (script === undefined) return settings.tiers[tier]?.ping ?? null;
  if (isExecName(subject)) return (await optionsOfExec(settings, subject)).ping ?? null;
  const { tiers, elsewhere } = await discover(root, settings, { tier });
  const scripts = [...tiers.flatMap((each) => each.scripts), ...elsewhere];
  return scripts.find(({ name }) => name === subject)?.options.ping ?? null;
}

/** A report that is ready to be sent, as it waits in `deliveries`. */
export interface ReportMail extends MailContent {
  /** Replaces the addresses of the channel; null: they stay. */
  readonly to: string | null;
}

/**
 * Allows later passes on this machine to send a report to this address. The address is in the log, too, but other
 * programs may write to the log: an address that is only there was not asked for by a user of this machine.
 */
export function noteRecipient(state: StateFolder, to: string): void {
  writeFileSync(noteOf(state, to), '', { mode: 0o600 });
}

function noteOf({ cache }: StateFolder, to: string): string {
  return join(cache, `report-to-${createHash('sha256').update(to).digest('hex').slice(0, 32)}`);
}

/**
 * The channels for a report: all that send mail. With an address, the first of them, else the server in `SMTP_URL`,
 * else the local sendmail. None: no address is known.
 */
export function chooseMailChannels(
  { settings, environment }: Pick<Runner, 'settings' | 'environment'>,
  to: string | null,
): readonly ChannelSettings[] {
  const channels = settings.alerts.channels.filter(({ kind }) => kind === 'mail');
  if (to === null) return channels;
  const options: ChannelSettings['options'] = ownEnvironment({ settings, environment }).SMTP_URL
    ? { smtp: '$SMTP_URL' }
    : {};
  return [channels[0] ?? { name: 'mail', kind: 'mail', target: '', options, severity: null, tags: [] }];
}

/** Sends a report by one channel. It never throws about the other side. */
export async function sendReport(
  channel: ChannelSettings,
  mail: ReportMail,
  runner: Runner,
  signal: AbortSignal,
): Promise<Sent> {
  return await sendMailBy(mail.to === null ? channel : { ...channel, target: mail.to }, mail, { ...runner, signal });
}

/** Sends a report that could not be sent at once. */
export async function deliverReport(runner: Runner, row: DeliveryRow, signal: AbortSignal): Promise<Sent> {
  const mail = JSON.parse(row.body) as ReportMail;
  if (mail.to !== null && !existsSync(noteOf(runner.state, String(mail.to))))
    return failed(`no report was sent to ${printableLine(String(mail.to))} from this machine before`);
  const channel = chooseMailChannels(runner, mail.to).find(({ name }) => name === row.channel);
  return channel === undefined ? failed(describeGone(row)) : await sendReport(channel, mail, runner, signal);
}
