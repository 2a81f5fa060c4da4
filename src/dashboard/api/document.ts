import type { Api } from './route.ts';

/** The OpenAPI document of the routes: `/api/openapi.json`, and what the client's types are made of. */
export function apiDocument(api: Api, version: string): ReturnType<Api['getOpenAPI31Document']> {
  const document = api.getOpenAPI31Document({ openapi: '3.1.0', info: { title: 'folder-runner', version } });
  const paths = Object.entries(document.paths ?? {}).map(([path, item]) => [path.replaceAll('{.+}', ''), item]);
  return { ...document, paths: Object.fromEntries(paths) };
}
