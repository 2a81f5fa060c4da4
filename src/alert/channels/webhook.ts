import type { ChannelSettings } from '../../settings/settings.ts';
import { judgeAnswer, sendHttp } from './http.ts';
import { writeWebhook } from './presets.ts';
import { failed, type Outgoing, type SendPlace, type Sent } from './sent.ts';

/** Sends a message as JSON. @param channel with its values read from the environment */
export async function sendWebhook(channel: ChannelSettings, outgoing: Outgoing, place: SendPlace): Promise<Sent> {
  const { url, body, headers, holdsSecret } = writeWebhook(channel, outgoing);
  const form = URL.parse(url);
  if (form === null || !/^https?:$/.test(form.protocol))
    return failed('the URL is not valid: it must begin with https://', true);
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
