import { homedir } from 'node:os';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apiDocument, createApi } from '../../../src/dashboard/api/api.ts';
import { openSite } from '../../../src/dashboard/site.ts';
import { inRoot, makeQueueSite } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { rounds, seed } from '../../support/faults/rounds.ts';

/** As much of JSON Schema as the document uses. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly required?: readonly string[];
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: Schema;
}

interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

interface Route extends Operation {
  readonly path: string;
  readonly method: string;
}

/** What has broken servers before. */
const nasty = [
  ...['', ' ', '0', '-1', '1', '2', '1.5', '1e400', 'NaN', '9007199254740993', '99999999999999999999', '0x10', 'true'],
  ...['null', '[]', '{}', '*', '[', '?', '**/**', '../../etc/passwd', 'hourly/clean/..', 'queue/[', 'mail/*'],
  ...["';drop table jobs;--", '\0', 'a\0b', '\x1b[2J', '\r\nx: y', '\u202e\u2028', '😀'.repeat(300), 'a'.repeat(5_000)],
  ...[
    '+1 day',
    '-1h',
    '1ms',
    '0s',
    '2026-13-45',
    '2026-02-30 25:61',
    '9'.repeat(400),
    '__proto__',
    'constructor',
    'toString',
  ],
];

/** As an address holds it; some of it is no encoding at all. */
const addressed = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...nasty).map((text) => encodeURIComponent(text)) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary' }).map((text) => encodeURIComponent(text.toWellFormed())) },
  { weight: 1, arbitrary: fc.constantFrom('%', '%zz', '%c3%28', '%00', '%ff', '%2e%2e%2f', 'a%2Fb', '//', '%F0%9F') },
);

const words = fc.oneof(fc.constantFrom(...nasty), fc.string({ unit: 'binary' }));
const numbers = fc.oneof(fc.integer(), fc.double(), fc.constantFrom(0, 1, 2, -1, 2 ** 53, -(2 ** 63), 1e21, 0.5));

function valuesOf(schema: Schema, document: Document, depth = 0): fc.Arbitrary<unknown> {
  const wrong = fc.oneof(words, numbers, fc.jsonValue({ maxDepth: 2 }));
  return fc.oneof({ weight: 4, arbitrary: rightOf(schema, document, depth) }, { weight: 1, arbitrary: wrong });
}

function rightOf(schema: Schema, document: Document, depth: number): fc.Arbitrary<unknown> {
  const { $ref, type, enum: choices, anyOf, properties, items } = schema;
  if ($ref !== undefined)
    return rightOf(document.components.schemas[$ref.split('/').at(-1) as string] as Schema, document, depth);
  if (choices !== undefined) return fc.constantFrom(...choices);
  if (anyOf !== undefined) return fc.oneof(...anyOf.map((each) => rightOf(each, document, depth)));
  const [kind] = [type ?? 'any'].flat().filter((each) => each !== 'null');
  if (kind === 'object') {
    const fields = Object.entries(properties ?? {}).map(([key, each]) => [key, valuesOf(each, document, depth + 1)]);
    return fc.record(Object.fromEntries(fields) as Record<string, fc.Arbitrary<unknown>>, {
      requiredKeys: [...(schema.required ?? [])],
    });
  }
  if (kind === 'array') return fc.array(valuesOf(items ?? {}, document, depth + 1), { maxLength: 3 });
  if (kind === 'integer' || kind === 'number') return fc.oneof(fc.integer({ min: 1, max: 5 }), numbers);
  if (kind === 'boolean') return fc.boolean();
  return kind === 'string'
    ? fc.oneof(fc.constantFrom('export', 'mail/welcome', '1ms', '+1 minute'), words)
    : fc.jsonValue();
}

/** Bodies that are no JSON, or are it in a way that nobody expects. */
const strangeBodies = fc.oneof(
  fc.constantFrom<string | Uint8Array>(
    ...['', '{', '[1,', '{"name":"export","data":{"a":1e999}}', 'null', '"text"', '0', '[]', '[[]]', '[null]', '﻿{}'],
    ...[
      '{"name":"export","name":7}',
      '{"__proto__":{"name":"export"},"name":"export"}',
      '{"name":"export","data":\u0001}',
    ],
    `{"name":"export","data":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
    `{"name":"export","data":${'{"a":'.repeat(2_000)}1${'}'.repeat(2_000)}}`,
    `{"name":"export","data":"${'a'.repeat(1_200_000)}"}`,
    `{"name":"export","priority":${'9'.repeat(5_000)}}`,
    ...[new Uint8Array([0xff, 0xfe, 0x7b, 0x7d]), new Uint8Array([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d])],
  ),
  fc.string({ unit: 'binary' }),
  fc.uint8Array({ maxLength: 200 }),
);

const contentTypes = fc.oneof(
  { weight: 8, arbitrary: fc.constant<string | null>('application/json') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      null,
      'text/plain',
      'application/json; charset=utf-16',
      'multipart/form-data',
      'x',
      'application/xml',
    ),
  },
);

interface Asked {
  readonly address: string;
  readonly body: string | Uint8Array | undefined;
  readonly contentType: string | null;
}

function requestsOf(route: Route, document: Document): fc.Arbitrary<Asked> {
  const { parameters = [], requestBody } = route;
  const ofPath = parameters.filter((each) => each.in === 'path').map(({ name }) => name);
  const asked = parameters.filter((each) => each.in === 'query');
  const right = fc.constantFrom('1', '2', '3', 'export', 'hourly', 'queue', '24h', 'asc', 'failed', '5');
  const segments = fc.tuple(
    ...ofPath.map(() => fc.oneof({ weight: 3, arbitrary: right }, { weight: 1, arbitrary: addressed })),
  );
  const fields = asked.map(({ name, schema }) => {
    const value = rightOf(schema, document, 0).map((found) => encodeURIComponent(String(found).toWellFormed()));
    const values = fc.oneof(
      { weight: 3, arbitrary: value },
      { weight: 1, arbitrary: right },
      { weight: 1, arbitrary: addressed },
    );
    return { weight: 5, arbitrary: fc.tuple(fc.constant(name), values) };
  });
  const unknown = { weight: 1, arbitrary: fc.tuple(fc.constant('unknown'), right) };
  const bodies = Object.values(requestBody?.content ?? {}).map(({ schema }) =>
    valuesOf(schema, document).map((value) => JSON.stringify(value)),
  );
  const body = bodies.length === 0 ? fc.constant(undefined) : fc.oneof(...bodies, ...bodies, strangeBodies);
  return fc
    .tuple(segments, fc.array(fc.oneof(unknown, ...fields), { maxLength: 3 }), body, contentTypes)
    .map(([values, fields, body, contentType]) => {
      const place = ofPath.reduce(
        (path, name, index) => path.replace(`{${name}}`, () => values[index] ?? ''),
        route.path,
      );
      // Only a wait that is over soon; and nothing is started.
      const query = fields.filter(([name, value]) => name !== 'wait' || /^\D|^0s|^1ms/.test(value));
      const address = `${place}?${query.map(([name, value]) => `${name}=${value}`).join('&')}`;
      return { address, body, contentType };
    });
}

test('whatever is asked of any route is answered, or refused with a reason', async () => {
  const root = makeQueueSite();
  await inRoot(root, 'hourly');
  for (const name of ['export', 'mail/welcome', 'export']) await inRoot(root, 'add', name);
  const site = openSite({ root, env: process.env, version: '0', now: Date.now, distFolder: '/nowhere/dist' });
  const api = createApi(site, { name: 'fuzz', permission: 'manage' });
  const document = apiDocument(api, '0') as unknown as Document;
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Route => ({ path, method, ...operation })),
  );
  expect(routes.length).toBeGreaterThan(40);
  const told: number[] = [];
  for (const route of routes) {
    const ask = fc.asyncProperty(requestsOf(route, document), async ({ address, body, contentType }) => {
      const headers = { ...(contentType !== null && { 'content-type': contentType }) };
      const init = {
        method: route.method.toUpperCase(),
        headers,
        ...(body !== undefined && { body: body as string }),
      };
      const response = await api.request(`http://127.0.0.1${address}`, init);
      told.push(response.status);
      await checkAnswer(response, root);
    });
    await fc.assert(ask, { seed, numRuns: rounds(20 * numRunsOf(route)) });
  }
  await site.close();
  // They were not all refused.
  expect(told.filter((status) => status < 300).length).toBeGreaterThan(told.length / 20);
  checkInvariants(root, { isSettled: false, isPruned: true });
});

/** Each of those that take a body has more to be wrong. */
function numRunsOf({ requestBody, parameters = [] }: Route): number {
  return requestBody === undefined ? Math.min(1 + parameters.length, 6) : 10;
}

async function checkAnswer(response: Response, root: string): Promise<void> {
  if (/event-stream/.test(response.headers.get('content-type') ?? '')) return void (await response.body?.cancel());
  const text = await response.text();
  expect(response.status, text).toBeLessThan(500);
  expect(text).not.toMatch(/\n\s+at .*:\d+/);
  if (response.status < 400) return;
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  expect(JSON.parse(text)).toMatchObject({
    status: response.status,
    title: expect.any(String),
    detail: expect.any(String),
  });
  for (const place of [root, process.cwd(), homedir(), 'node_modules', '/nowhere']) expect(text).not.toContain(place);
}
