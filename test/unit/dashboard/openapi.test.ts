import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from '@hono/zod-openapi';
import { expect, test } from 'vitest';
import { apiDocument, createApi } from '../../../src/dashboard/api/api.ts';
import { repository } from '../../support/site.ts';

interface Operation {
  readonly operationId?: string;
  readonly summary?: string;
  readonly tags?: readonly string[];
}

const document = apiDocument(createApi(null as never, null as never), '1.2.3');

const operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
  Object.entries(item as Record<string, Operation>).map(([method, operation]) => ({ ...operation, path, method })),
);

test('each operation has a name of its own, by which generated clients call it', () => {
  const names = operations.map(({ operationId }) => operationId);
  expect(new Set(names).size).toBe(operations.length);
  for (const name of names) expect(name).toMatch(/^[a-z]+(?:[A-Z][a-z]+)+$/);
  expect(names).toEqual(expect.arrayContaining(['listRuns', 'getRun', 'startRun', 'kickJob', 'updateJob', 'setPause']));
});

test('each operation has a summary and one of the tags that the document describes', () => {
  const known = document.tags?.map(({ name }) => name);
  for (const { path, summary, tags } of operations) {
    expect([path, summary]).toEqual([path, expect.stringMatching(/\w/)]);
    expect([path, known]).toEqual([path, expect.arrayContaining([...(tags ?? ['none'])])]);
  }
  expect(known).toEqual([...new Set(operations.flatMap(({ tags = [] }) => tags))].sort(inOrderOf(known ?? [])));
});

const inOrderOf = (order: readonly string[]) => (one: string, other: string) =>
  order.indexOf(one) - order.indexOf(other);

test('the document names its version, its license and a server that is found from its own address', () => {
  expect(document.info).toMatchObject({ version: '1.2.3', license: { name: 'MIT' } });
  const [server] = document.servers ?? [];
  const from = 'https://example.org/runner/api/openapi.json';
  expect(new URL(server?.url ?? '', from).href).toBe('https://example.org/runner/');
});

interface Example {
  readonly of: string;
  readonly schema: object;
  readonly example: unknown;
}

/** Of each body, and of each answer that has a text. */
const examples: readonly Example[] = operations.flatMap((operation) => {
  const { method, path, requestBody, responses = {} } = JSON.parse(JSON.stringify(operation));
  const contents = [['body', requestBody], ...Object.entries(responses)] as [
    string,
    { content?: object } | undefined,
  ][];
  return contents.flatMap(([place, part]) =>
    Object.values(part?.content ?? {}).map((content) => ({ ...content, of: `${method} ${path} ${place}` })),
  );
});

/** A field that the schema does not name is one too many. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { example: _, ...rest } = schema as Record<string, unknown>;
  const entries = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, closed(value)]));
  const isObject = entries.type === 'object' && entries.properties !== undefined;
  return isObject ? { additionalProperties: false, ...entries } : entries;
}

test('each operation has an example of its body and of each answer, which is as its schema says', () => {
  expect(examples.length).toBeGreaterThan(operations.length);
  const schemas = JSON.parse(JSON.stringify(document.components?.schemas));
  const wrong = examples.flatMap(({ of, schema, example }) => {
    const whole = closed({ ...schema, $defs: schemas });
    const text = JSON.stringify(whole).replaceAll('#/components/schemas/', '#/$defs/');
    const { error } = z.fromJSONSchema(JSON.parse(text)).safeParse(example);
    return error === undefined && example !== undefined ? [] : [{ of, issues: error?.issues ?? 'none' }];
  });
  expect(wrong).toEqual([]);
});

test('no text of an example is a placeholder: its field has one', () => {
  expect(examples.filter(({ example }) => JSON.stringify(example).includes('(text)')).map(({ of }) => of)).toEqual([]);
});

const page = readFileSync(join(repository, 'docs/api.md'), 'utf8');

/** Parameters that the page explains once for all lists, and for all sentences. */
const ofAll = ['limit', 'cursor', 'count', 'zone'];

test('docs/api.md names each route under its tag, with its parameters, and no other', () => {
  const told = (document.tags ?? []).flatMap(({ name: tag }) => {
    const [section = ''] = (page.split(`\n### ${tag}\n`)[1] ?? '').split('\n#');
    return [...section.matchAll(/^\| (`.+?`) \| .*? \| (.*)\|$/gm)].flatMap(([, routes = '', parameters = '']) =>
      [...routes.matchAll(/`(?:([A-Z]+) )?([^`]+)`/g)].map(([, method = 'GET', path = '']) => {
        const route = `${tag}: ${method} ${path.startsWith('/') ? path : `/api/${path}`}`;
        return [route, namesOf(parameters)] as const;
      }),
    );
  });
  const isVerb = /^Jobs: POST \/api\/jobs\/\{id\}\/\w+$/;
  const known = operations.map(({ method, path, tags: [tag] = [], ...operation }) => {
    const route = `${tag}: ${method.toUpperCase()} ${path}`;
    const { parameters = [] } = operation as { parameters?: readonly { readonly name: string; readonly in: string }[] };
    const names = parameters.filter((each) => each.in === 'query').map(({ name }) => name);
    return [
      isVerb.test(route) ? 'Jobs: POST /api/jobs/{id}/{verb}' : route,
      names.filter((name) => !ofAll.includes(name)).sort(),
    ];
  });
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(known));
});

/** The names at the beginning of each part: "`since` (7d), `limit` 1–100" */
function namesOf(cell: string): string[] {
  const names = [...cell.matchAll(/(?:^|, )`(\w+)`/g)].map(([, name = '']) => name);
  return names.filter((name) => !ofAll.includes(name)).sort();
}
