import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import openapiTypes, { astToString, COMMENT_HEADER } from 'openapi-typescript';
import { apiDocument, createApi } from '../api/api.ts';

/** Types of all routes from the API's own document: `paths.ts`, which is made anew by each build. */
const api = createApi(null as never, null as never);
const types = await openapiTypes(JSON.parse(JSON.stringify(apiDocument(api, '0'))));
await writeFile(join(import.meta.dirname, 'paths.ts'), COMMENT_HEADER + astToString(types));
