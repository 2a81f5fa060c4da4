import { createHash } from 'node:crypto';
import { escapeHtml } from '../../monitor/alert/wording.ts';
import type { apiDocument } from './document.ts';

/** The API's document for people: one file without scripts, of which just its own styles take effect. */
export interface DocsPage {
  readonly html: string;
  /** Its content security policy. */
  readonly policy: string;
}

/** As much of JSON Schema as the document uses. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly description?: string;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
}

interface Content {
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly {
    readonly in: string;
    readonly name: string;
    readonly required?: boolean;
    readonly description?: string;
    readonly schema?: Schema;
  }[];
  readonly requestBody?: Content;
  readonly responses?: Readonly<Record<string, Content>>;
}

const STYLE = `:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}body{max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:2.5rem;border-bottom:1px solid #8886}h3{font-family:ui-monospace,monospace;font-size:1rem;margin:2rem 0 .25rem;overflow-wrap:anywhere}
table{display:block;overflow-x:auto;border-collapse:collapse;margin:.5rem 0}th,td{text-align:left;vertical-align:top;padding:.2rem .75rem .2rem 0}
th{font-weight:600}tr{border-top:1px solid #8884}code{font-family:ui-monospace,monospace;font-size:.9em}
p{margin:.25rem 0}nav{columns:18rem}nav a{display:block;overflow-wrap:anywhere;font-family:ui-monospace,monospace;font-size:.85rem}`;

export function renderDocsPage(document: ReturnType<typeof apiDocument>): DocsPage {
  const { paths = {}, components = {}, info } = document;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item as Record<string, Operation>).map(([method, operation]) => {
      const name = `${method.toUpperCase()} ${path}`;
      return { name, anchor: encodeURIComponent(name), operation };
    }),
  );
  const schemas = Object.entries((components.schemas ?? {}) as Record<string, Schema>);
  const html = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>API of ${escapeHtml(info.title)}</title>
<meta name="viewport" content="width=device-width"><style>${STYLE}</style></head><body><main>
<h1>API of ${escapeHtml(info.title)} ${escapeHtml(info.version)}</h1>
<p>For programs: <a href="openapi.json">openapi.json</a>. Refusals are <code>application/problem+json</code>.</p>
<nav>${operations.map(({ name, anchor }) => `<a href="#${escapeHtml(anchor)}">${escapeHtml(name)}</a>`).join('')}</nav>
<h2>Routes</h2>${operations.map(renderOperation).join('')}
<h2>Shapes</h2>${schemas.map(([name, schema]) => renderShape(name, schema)).join('')}</main></body></html>`;
  const hash = createHash('sha256').update(STYLE).digest('base64');
  const policy = `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
  return { html, policy };
}

interface NamedOperation {
  readonly name: string;
  readonly anchor: string;
  readonly operation: Operation;
}

function renderOperation({ name, anchor, operation }: NamedOperation): string {
  const { summary = '', description, security = [], parameters = [], requestBody, responses = {} } = operation;
  const permission = security[0]?.token?.[0];
  const rows = parameters.map((parameter) => {
    const { in: place, name: word, required = false, schema = {} } = parameter;
    const about = [parameter.description ?? schema.description ?? '', limitsOf(schema)].filter(Boolean).join('. ');
    return row([code(word), `${place}${required ? ', required' : ''}`, typeOf(schema), escapeHtml(about)]);
  });
  const body = requestBody === undefined ? [] : [row(['body', '', contentOf(requestBody), ''])];
  const answers = Object.entries(responses)
    .filter(([status]) => !status.endsWith('XX'))
    .map(([status, response]) =>
      row([code(status), 'answer', contentOf(response), escapeHtml(response.description ?? '')]),
    );
  const asks = permission === undefined ? 'no credential' : `permission: ${permission}`;
  return `<section><h3 id="${escapeHtml(anchor)}">${escapeHtml(name)}</h3><p>${escapeHtml(summary)}</p>
<p>${escapeHtml(description ?? '')}</p><p><small>${escapeHtml(asks)}</small></p>
<table>${[...rows, ...body, ...answers].join('')}</table></section>`;
}

function limitsOf({ minimum, maximum, default: usual }: Schema): string {
  const range = minimum === undefined && maximum === undefined ? '' : `${minimum ?? '…'} to ${maximum ?? '…'}`;
  return [range, usual === undefined ? '' : `default: ${JSON.stringify(usual)}`].filter(Boolean).join(', ');
}

function contentOf({ content = {} }: Content): string {
  return Object.entries(content)
    .map(([type, { schema = {} }]) => `${code(type)} ${typeOf(schema)}`)
    .join('<br>');
}

function renderShape(name: string, schema: Schema): string {
  const rows = Object.entries(schema.properties ?? {}).map(([key, each]) => {
    const optional = schema.required?.includes(key) ? '' : 'may be missing';
    return row([code(key), typeOf(each), [optional, escapeHtml(each.description ?? '')].filter(Boolean).join('. ')]);
  });
  const body = rows.length > 0 ? `<table>${rows.join('')}</table>` : `<p>${typeOf(schema)}</p>`;
  return `<section><h3 id="${escapeHtml(name)}">${escapeHtml(name)}</h3>${body}</section>`;
}

/** As TypeScript would write it, with links to shapes. */
function typeOf(schema: Schema): string {
  const { $ref, anyOf, oneOf, allOf, items, properties, additionalProperties } = schema;
  if ($ref !== undefined) return linkTo($ref.slice($ref.lastIndexOf('/') + 1));
  if (schema.enum !== undefined) return schema.enum.map((each) => code(JSON.stringify(each))).join(' | ');
  const parts = anyOf ?? oneOf ?? allOf;
  if (parts !== undefined)
    return parts
      .map(typeOf)
      .filter(Boolean)
      .join(allOf === undefined ? ' | ' : ' ');
  if (items !== undefined) return `${typeOf(items)} []`;
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(([key, each]) => `${code(key)}: ${typeOf(each)}`);
    return `{ ${fields.join(', ')} }`;
  }
  if (typeof additionalProperties === 'object') return `{ [name]: ${typeOf(additionalProperties)} }`;
  const types = [schema.type ?? []].flat();
  return code(types.length === 0 ? 'any JSON' : types.join(' | '));
}

const linkTo = (name: string): string => `<a href="#${escapeHtml(name)}">${escapeHtml(name)}</a>`;
const code = (text: string): string => `<code>${escapeHtml(text)}</code>`;
const row = (cells: readonly string[]): string => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
