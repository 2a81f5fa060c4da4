import type { Api } from './route.ts';

/** The OpenAPI document of the routes: `/api/openapi.json`, and what the client's types are made of. */
export function apiDocument(api: Api, version: string): ReturnType<Api['getOpenAPI31Document']> {
  return api.getOpenAPI31Document({ openapi: '3.1.0', info: { title: 'folder-runner', version } });
}
