import { UsageError } from '../system/base/errors.ts';
import { type ChannelSettings, nameChannels, readChannel, variablesOf } from './channels.ts';
import { ALERTS_VARIABLE, type Settings } from './settings.ts';

/** The settings with the channels of `RUNNER_ALERTS`. @throws {UsageError} with one sentence for each wrong word */
export function takeChannels(settings: Settings, text: string, environment: NodeJS.ProcessEnv): Settings {
  const { channels, problems } = parseAlertsVariable(text, environment);
  if (problems.length > 0) throw new UsageError(problems);
  const secrets = [...new Set([...settings.secrets, ALERTS_VARIABLE, ...variablesOf(channels)])];
  return { ...settings, secrets, alerts: { ...settings.alerts, channels } };
}

/** The words before the colon in `RUNNER_ALERTS`. */
const wordKinds: Readonly<Record<string, (target: string) => Readonly<Record<string, unknown>>>> = {
  mail: (to) => ({ kind: 'mail', to }),
  webhook: (url) => ({ kind: 'webhook', url }),
  command: (run) => ({ kind: 'command', run }),
  slack: (url) => ({ kind: 'webhook', preset: 'slack', url }),
  discord: (url) => ({ kind: 'webhook', preset: 'discord', url }),
  teams: (url) => ({ kind: 'webhook', preset: 'teams', url }),
  ntfy: (url) => ({ kind: 'webhook', preset: 'ntfy', url: /^[\w-]+$/.test(url) ? `https://ntfy.sh/${url}` : url }),
  telegram: (chat) => ({ kind: 'webhook', preset: 'telegram', chat, token: '$TELEGRAM_TOKEN' }),
  pushover: (user) => ({ kind: 'webhook', preset: 'pushover', user, token: '$PUSHOVER_TOKEN' }),
};

/**
 * The channels of `RUNNER_ALERTS=mail:me@example.org`; spaces or commas separate several. Mail uses the server in
 * `SMTP_URL` if that is set.
 *
 * @returns also the faults, one sentence per word, without the value, which may be a secret
 */
export function parseAlertsVariable(text: string, environment: NodeJS.ProcessEnv) {
  const found: ChannelSettings[] = [];
  const problems: string[] = [];
  for (const [index, word] of text
    .split(/[\s,]+/)
    .filter(Boolean)
    .entries()) {
    const [, kind = '', target = ''] = /^([a-z]+):(.+)$/.exec(word) ?? [];
    const place = `${ALERTS_VARIABLE}: word ${index + 1}`;
    const input = Object.hasOwn(wordKinds, kind) ? wordKinds[kind]?.(target) : undefined;
    if (input === undefined) {
      problems.push(`${place} must be ${Object.keys(wordKinds).join(', ')} and a target: mail:me@example.org`);
      continue;
    }
    const smtp = kind === 'mail' && environment.SMTP_URL ? { smtp: '$SMTP_URL' } : {};
    const checked = readChannel({ ...input, ...smtp });
    if ('value' in checked) found.push(checked.value);
    else problems.push(...checked.wrong.map(({ expected }) => `${place} (${kind}) must be ${expected}`));
  }
  return { channels: nameChannels(found), problems };
}
