import type { Site } from '../../discovery/site.ts';
import { siteOf } from '../../monitor/alert/channels.ts';
import { chooseMailChannels, noteRecipient, type ReportMail, sendReport } from '../../monitor/alert/deliver.ts';
import { readDigest } from '../../report/model/digest.ts';
import type { TimeWindow } from '../../report/model/runs/runs.ts';
import { createClock } from '../../report/text/clock.ts';
import { writeDigest } from '../../report/text/digest.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { machineName } from '../../system/process/identity.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { withWritableLog } from '../shared/open.ts';

interface MailRequest {
  readonly root: string | undefined;
  /** Null: whom the settings name. */
  readonly to: string | null;
  readonly window: TimeWindow;
}

/** Longest time for one server. */
const LONGEST_MS = 30_000;

/** Time until a pass tries it again. */
const WAIT_MS = 60_000;

/**
 * `runner report --mail`: sends the report of a window through every mail channel. The next passes send again what
 * fails for now.
 */
export async function mailReport(context: CommandContext, request: MailRequest): Promise<void> {
  const runner = await openRunner(context, request.root);
  const channels = chooseMailChannels(runner, request.to);
  if (channels.length === 0) throw new UsageError(NO_CHANNEL);
  await withWritableLog(context, request.root, async (store, site) => {
    const mail = await composeReport(site, request, runner.settings.web.url);
    for (const channel of channels) {
      const sent = await sendReport(channel, mail, runner, AbortSignal.timeout(LONGEST_MS));
      const to = printableLine(request.to ?? channel.target);
      if (sent.ok) {
        context.stdout.write(`Sent to ${to}: ${printableLine(sent.answer)}\n`);
        continue;
      }
      const { isPermanent } = sent;
      if (isPermanent) context.setExitCode(1);
      else {
        if (mail.to !== null) noteRecipient(runner.state, mail.to);
        const body = JSON.stringify(mail);
        const delivery = { kind: 'report' as const, channel: channel.name, body, at: context.now() + WAIT_MS };
        await store.transaction((session) => session.deliveries.add([delivery]));
      }
      const next = isPermanent ? '' : ' The next passes try again, for 3 days.';
      context.stderr.write(`runner: The report could not be sent to ${to}: ${printableLine(sent.reason)}.${next}\n`);
    }
  });
}

const NO_CHANNEL =
  'No address to send the report to: add --to me@example.org, or a channel of mail to the settings ' +
  "(`alerts: { channels: [{ kind: 'mail', to: 'me@example.org' }] }`) or to the crontab " +
  '(RUNNER_ALERTS=mail:me@example.org).';

async function composeReport(site: Site, { to, window }: MailRequest, web: string | null): Promise<ReportMail> {
  const { root, nowMs: now } = site;
  const digest = await readDigest(site, window);
  const place = { host: machineName(), root, clock: createClock(now), web };
  return {
    to,
    ...writeDigest(digest, place),
    id: `runner-${siteOf(root)}-report-${now.toString(36)}`,
    thread: null,
    createdAt: now,
    isUrgent: false,
  };
}
