import { findSecrets, maskSecrets } from '../../../execution/secrets.ts';
import { type ChannelSettings, variablesOf } from '../../../settings/channels.ts';
import { variableReference } from '../../../settings/readers.ts';
import type { Settings } from '../../../settings/settings.ts';
import { failed, type Outgoing, type SendPlace, type Sent } from './sent.ts';

/** Variables that a channel is read from, and that this environment does not have. */
export function missingVariables(channel: ChannelSettings, environment: NodeJS.ProcessEnv): readonly string[] {
  return variablesOf([channel]).filter((name) => !environment[name]);
}

/** "the variable SLACK_URL is not set" */
export function describeMissing(names: readonly string[]): string {
  return names.length === 1 ? `the variable ${names[0]} is not set` : `the variables ${names.join(', ')} are not set`;
}

/** Its values, those of `$NAME` from the environment. */
export function readChannelValues(channel: ChannelSettings, environment: NodeJS.ProcessEnv): ChannelSettings {
  const read = (value: string): string =>
    variableReference.test(value) ? (environment[value.slice(1)] ?? '').trim() : value;
  const isLine = channel.kind === 'command';
  return {
    ...channel,
    // Of a command it is the shell's.
    target: isLine ? channel.target : channel.target.split(', ').map(read).join(', '),
    options: Object.fromEntries(Object.entries(channel.options).map(([key, value]) => [key, read(value)])),
  };
}

/** Sends one message by one channel. It never throws about the other side, and what it tells holds no secret. */
export async function sendByChannel(
  channel: ChannelSettings,
  outgoing: Outgoing,
  place: SendPlace & { readonly settings: Pick<Settings, 'env' | 'secrets'> },
): Promise<Sent> {
  const missing = missingVariables(channel, place.environment);
  // Another invocation may have them: cron's environment is none of a terminal's.
  if (missing.length > 0) return failed(describeMissing(missing));
  const read = readChannelValues(channel, place.environment);
  return withoutSecrets(await sendRead(read, outgoing, place), read, place);
}

async function sendRead(channel: ChannelSettings, outgoing: Outgoing, place: SendPlace): Promise<Sent> {
  if (channel.kind === 'mail') return await (await import('./mail.ts')).sendAlertByMail(channel, outgoing, place);
  if (channel.kind === 'webhook') return await sendWebhook(channel, outgoing, place);
  return await (await import('./command.ts')).sendByCommand(channel, outgoing, place);
}

/** Sends a message as JSON. @param channel with its values read from the environment */
async function sendWebhook(channel: ChannelSettings, outgoing: Outgoing, place: SendPlace): Promise<Sent> {
  const { NEEDS_TLS, tellsSecret, writeWebhook } = await import('./presets.ts');
  const { judgeAnswer, sendHttp } = await import('./http.ts');
  const { url, body, headers, holdsSecret } = writeWebhook(channel, outgoing);
  const form = URL.parse(url);
  if (form === null || !/^https?:$/.test(form.protocol))
    return failed('the URL is not valid: it must begin with https://', true);
  if (tellsSecret(channel)) return failed(NEEDS_TLS, true);
  const request = {
    url,
    method: 'POST' as const,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'user-agent': `folder-runner/${place.version}`,
      // A draft of the IETF that many services go by: who gets the same key twice takes it once.
      'idempotency-key': outgoing.id,
      ...headers,
    },
    body: JSON.stringify(body),
    signal: place.signal,
    environment: place.environment,
    followsRedirects: !holdsSecret,
  };
  try {
    return judgeAnswer(url, await sendHttp(request));
  } catch (error) {
    return failed((error as Error).message);
  }
}

/** The other side may repeat what it was sent, and the path of a URL may be all that keeps it from others. */
export function withoutSecrets(
  sent: Sent,
  { target, options }: Pick<ChannelSettings, 'target' | 'options'>,
  { environment, settings }: { environment: NodeJS.ProcessEnv; settings: Pick<Settings, 'env' | 'secrets'> },
): Sent {
  const paths = [target, options.smtp ?? ''].flatMap((text) => {
    const url = URL.parse(text);
    return url === null ? [] : [url.pathname + url.search, url.pathname, url.password];
  });
  const values = [...paths, options.token ?? '', options.user ?? ''].filter((value) => value.length >= 6);
  const own = values
    .toSorted((one, other) => other.length - one.length)
    .map((value) => ({ value: Buffer.from(value).toString('latin1'), mask: '[secret]' }));
  const mask = maskSecrets([...findSecrets(settings, environment), ...own]);
  return sent.ok ? { ...sent, answer: mask.text(sent.answer) } : { ...sent, reason: mask.text(sent.reason) };
}
