import { expect, test } from 'vitest';
import { apiDocument, createApi } from '../../../src/dashboard/api/api.ts';

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
