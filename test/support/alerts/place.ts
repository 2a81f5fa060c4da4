import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { deliverDue } from '../../../src/monitor/alert/deliver.ts';
import type { AlertMessage, IncidentDetail } from '../../../src/monitor/alert/message.ts';
import { type ChannelSettings, readChannel } from '../../../src/settings/channels.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import type { DeliveryRow } from '../../../src/store/statements/monitor/alerts.ts';
import type { Store } from '../../../src/store/store.ts';
import { makeTemporaryRoot } from '../places/temporary-root.ts';
import { makeStateOf, openStoreOf } from '../queue/state-of.ts';

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
