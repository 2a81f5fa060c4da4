import { expect, onTestFinished } from 'vitest';
import { z } from 'zod';
import { apiDocument, createApi } from '../../../src/dashboard/api/api.ts';
import { openSite } from '../../../src/dashboard/site.ts';

/** An API of a root, asked within this process. */
export interface ReadApi {
  /** What a question is answered, which must be as the API's own document says. */
  ask(path: string): Promise<Body>;
  /** What a question is refused with: the problem, of which each error is `name: detail`. */
  refused(path: string): Promise<{ status: number; detail: string; errors: string[] }>;
  /** The text of an answer that is no JSON. */
  text(path: string): Promise<string>;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers, whose types their schemas have checked
export type Body = any;

export function openReadApi(root: string, now: () => number = Date.now): ReadApi {
  const site = openSite({ root, env: process.env, version: '1.2.3', now, distFolder: root });
  onTestFinished(() => site.close());
  const api = createApi(site, { name: 'test', permission: 'read' });
  const get = async (path: string) => await api.request(path);
  return {
    ask: async (path) => {
      const response = await get(path);
      const body: Body = await response.json();
      expect({ path, status: response.status, body }).toMatchObject({ status: 200 });
      const checked = schemaOf(path).safeParse(body);
      expect({ path, issues: checked.error?.issues ?? [] }).toEqual({ path, issues: [] });
      return body;
    },
    refused: async (path) => {
      const response = await get(path);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      const { status, detail, errors = [] }: Body = await response.json();
      expect({ path, status: response.status }).toEqual({ path, status });
      return { status, detail, errors: errors.map(({ name, detail: text }: Body) => `${name}: ${text}`) };
    },
    text: async (path) => await (await get(path)).text(),
  };
}

/** The API's document. */
export const readDocument: Body = JSON.parse(
  JSON.stringify(apiDocument(createApi(null as never, { name: 'test', permission: 'read' }), '1.2.3')),
);

const schemas = new Map<string, z.ZodType>();

/** What the document says of a successful answer. Nothing else may be in it. */
function schemaOf(path: string): z.ZodType {
  const templates = Object.keys(readDocument.paths).filter((template) => fits(template, path.split('?', 1)[0] ?? ''));
  // The one with the fewest parameters is the one that answers: `jobs/counts`, not `jobs/{id}`.
  const [template = ''] = templates.toSorted((one, other) => one.split('{').length - other.split('{').length);
  const known = schemas.get(template);
  if (known !== undefined) return known;
  const { schema } = readDocument.paths[template].get.responses[200].content['application/json'];
  const whole = { ...schema, $defs: readDocument.components.schemas };
  const text = JSON.stringify(closed(whole)).replaceAll('#/components/schemas/', '#/$defs/');
  const made = z.fromJSONSchema(JSON.parse(text));
  schemas.set(template, made);
  return made;
}

function fits(template: string, path: string): boolean {
  const pattern = template.replaceAll(/\{(\w+)\}/g, (_, name) => (name === 'name' ? '.+' : '[^/]+'));
  return new RegExp(`^${pattern}$`).test(path);
}

/** A field that the document does not name is one too many. */
function closed(schema: Body): Body {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isOpen = entries.properties !== undefined && entries.additionalProperties === undefined;
  return isOpen && typeof entries.type === 'string' ? { ...entries, additionalProperties: false } : entries;
}
