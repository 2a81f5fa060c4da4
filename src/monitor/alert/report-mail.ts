import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChannelSettings } from '../../settings/channels.ts';
import type { Runner } from '../../settings/settings.ts';
import type { DeliveryRow } from '../../store/statements/monitor/alerts.ts';
import { printableLine } from '../../system/base/text.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { MailContent } from './channels/mail.ts';
import { describeMissing, missingVariables, readChannelValues, withoutSecrets } from './channels/send.ts';
import { failed, type Sent } from './channels/sent.ts';

/** A report that is ready to be sent, as it waits in `deliveries`. */
export interface ReportMail extends MailContent {
  /** Instead of whom the channel names; null: whom it names. */
  readonly to: string | null;
}

type Place = Pick<Runner, 'root' | 'state' | 'version' | 'environment' | 'settings'>;

/**
 * Lets later passes here send a report to this address. It also stands in the log, which others may write to: what
 * only that says is no address that somebody here has asked for.
 */
export function noteRecipient(state: StateFolder, to: string): void {
  writeFileSync(noteOf(state, to), '', { mode: 0o600 });
}

function noteOf({ cache }: StateFolder, to: string): string {
  return join(cache, `report-to-${createHash('sha256').update(to).digest('hex').slice(0, 32)}`);
}

/**
 * The channels that a report goes by: all of mail; with an address of its own the first of them, else the server in
 * `SMTP_URL`, else the local sendmail. None: nobody has said where to.
 */
export function chooseMailChannels(
  { settings, environment }: Pick<Place, 'settings' | 'environment'>,
  to: string | null,
) {
  const channels = settings.alerts.channels.filter(({ kind }) => kind === 'mail');
  if (to === null) return channels;
  return [channels[0] ?? plainChannel(environment)];
}

function plainChannel(environment: NodeJS.ProcessEnv): ChannelSettings {
  const options: ChannelSettings['options'] = environment.SMTP_URL ? { smtp: '$SMTP_URL' } : {};
  return { name: 'mail', kind: 'mail', target: '', options, severity: null, tags: [] };
}

/** Sends a report by one channel. It never throws about the other side. */
export async function sendReport(
  channel: ChannelSettings,
  mail: ReportMail,
  place: Place,
  signal: AbortSignal,
): Promise<Sent> {
  const meant = mail.to === null ? channel : { ...channel, target: mail.to };
  const missing = missingVariables(meant, place.environment);
  if (missing.length > 0) return failed(describeMissing(missing));
  const { sendMail } = await import('./channels/mail.ts');
  const read = readChannelValues(meant, place.environment);
  return withoutSecrets(await sendMail(read, mail, { ...place, signal }), read, place);
}

/** Sends what could not be sent at once. */
export async function deliverReport(
  { runner }: { readonly runner: Place },
  row: DeliveryRow,
  signal: AbortSignal,
): Promise<Sent> {
  const mail = JSON.parse(row.body) as ReportMail;
  if (mail.to !== null && !existsSync(noteOf(runner.state, String(mail.to))))
    return failed(`no report was sent to ${printableLine(String(mail.to))} from this machine before`);
  const channel = chooseMailChannels(runner, mail.to).find(({ name }) => name === row.channel);
  if (channel === undefined) return failed(`the settings have no channel ${row.channel} any more`);
  return await sendReport(channel, mail, runner, signal);
}
