import { isInClear } from '../../../settings/channels.ts';
import { variableReference } from '../../../settings/readers.ts';
import type { Settings } from '../../../settings/settings.ts';
import { judgeAnswer, sendHttp } from './http.ts';
import { describeMissing, withoutSecrets } from './send.ts';
import { failed, type SendPlace, type Sent } from './sent.ts';

/** A sign of life of one run or pass, for a service that notices when none comes. */
export interface Ping {
  /** As the settings or a tag say: a URL, or `$NAME`. */
  readonly url: string;
  /** `log`: it failed, and is tried again. */
  readonly state: 'start' | 'success' | 'fail' | 'log';
  /** Of a failure; null: it has none. */
  readonly exitCode: number | null;
  /** Tells which end belongs to which start. */
  readonly runId: string;
  /** What is shown with it; '' for a start. */
  readonly text: string;
}

/** As it waits in the log, which others may write to: where it goes is asked of the settings and tags again. */
export type QueuedPing = Omit<Ping, 'url'>;

/** @throws where it is not what a runner has queued */
export function readQueuedPing(body: string): QueuedPing {
  const { state, exitCode, runId, text } = JSON.parse(body) as Partial<Ping>;
  const isState = state === 'start' || state === 'success' || state === 'fail' || state === 'log';
  if (!isState || typeof runId !== 'string' || typeof text !== 'string') throw new Error('its body is no ping');
  return { state, runId, text, exitCode: Number.isInteger(exitCode) ? (exitCode as number) : null };
}

/** Sends a sign of life, in the style of healthchecks.io. It never throws about the other side. */
export async function sendPing(
  ping: Ping,
  place: SendPlace & { readonly settings: Pick<Settings, 'env' | 'secrets'> },
): Promise<Sent> {
  const { environment, signal, version } = place;
  const name = variableReference.test(ping.url) ? ping.url.slice(1) : null;
  const base = name === null ? ping.url : (environment[name] ?? '').trim();
  if (name !== null && base === '') return failed(describeMissing([name]));
  const url = URL.parse(base);
  if (url === null || !/^https?:$/.test(url.protocol)) return failed('the ping URL is not valid', true);
  if (isInClear(url) && url.username + url.password !== '') {
    return failed('the ping URL must begin with https://, as its password would be sent in the clear', true);
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${suffixOf(ping)}`;
  url.searchParams.set('rid', ping.runId);
  const headers = { 'content-type': 'text/plain; charset=utf-8', 'user-agent': `folder-runner/${version}` };
  const request = { url: url.href, method: 'POST' as const, headers, body: ping.text, signal, environment };
  try {
    const answer = await sendHttp({ ...request, followsRedirects: true });
    return withoutSecrets(judgeAnswer(url.href, answer), { target: base, options: {} }, place);
  } catch (error) {
    return failed((error as Error).message);
  }
}

/** An exit code of 0 would be a success. */
function suffixOf({ state, exitCode }: Ping): string {
  if (state === 'success') return '';
  return state === 'fail' && exitCode !== null && exitCode > 0 && exitCode < 256 ? `/${exitCode}` : `/${state}`;
}
