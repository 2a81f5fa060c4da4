import { createServer, type IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { expect, onTestFinished } from 'vitest';

/** A request that a collector got. */
export interface CollectedRequest {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  // biome-ignore lint/suspicious/noExplicitAny: as any reader of JSON has it
  readonly body: any;
}

export interface CollectorServer {
  readonly url: string;
  readonly requests: CollectedRequest[];
  /** How it answers from now on; null: not at all. */
  answer: { readonly status: number; readonly text?: string } | null;
}

/** A collector that checks what it gets against OTLP's own schema. */
export async function startCollector(): Promise<CollectorServer> {
  const requests: CollectedRequest[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const sent = Buffer.concat(pieces);
      const text = request.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
      requests.push({ path: request.url ?? '', headers: request.headers, body: JSON.parse(text.toString('utf8')) });
      if (collector.answer === null) return;
      const { status, text: answered = '{}' } = collector.answer;
      response.writeHead(status, { 'content-type': 'application/json' }).end(answered);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const collector: CollectorServer = { url: `http://127.0.0.1:${port}`, requests, answer: { status: 200 } };
  return collector;
}

/** What protobufjs has made of the official `.proto` files. */
interface MessageType {
  fromObject(object: unknown): unknown;
  verify(message: unknown): string | null;
  toObject(message: unknown, options: { longs: StringConstructor; bytes: StringConstructor }): unknown;
}

const { opentelemetry } = createRequire(import.meta.url)(
  '@opentelemetry/otlp-transformer/build/src/generated/root.js',
) as { opentelemetry: { proto: { collector: Record<string, { v1: Record<string, MessageType> }> } } };

const types: Readonly<Record<string, MessageType | undefined>> = {
  '/v1/traces': opentelemetry.proto.collector.trace?.v1.ExportTraceServiceRequest,
  '/v1/metrics': opentelemetry.proto.collector.metrics?.v1.ExportMetricsServiceRequest,
};

/** Fails unless it is what the schema says, field for field. */
export function checkAgainstSchema({ path, body }: Pick<CollectedRequest, 'path' | 'body'>): void {
  const type = types[path];
  if (type === undefined) throw new Error(`There is no ${path} in OTLP.`);
  const encoded = withBytes(body);
  const message = type.fromObject(encoded);
  expect(type.verify(message)).toBeNull();
  expect(type.toObject(message, { longs: String, bytes: String })).toEqual(encoded);
}

/** In OTLP's JSON the numbers of traces and spans are hexadecimal, unlike all other bytes in protobuf's. */
function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, each]) => !(Array.isArray(each) && each.length === 0));
  return Object.fromEntries(entries.map(([key, each]) => [key, toBytes(key, each)]));
}

function toBytes(key: string, value: unknown): unknown {
  const digits = { traceId: 32, spanId: 16 }[key];
  if (digits === undefined) return withBytes(value);
  expect(value).toMatch(new RegExp(`^[0-9a-f]{${digits}}$`));
  return Buffer.from(value as string, 'hex').toString('base64');
}
