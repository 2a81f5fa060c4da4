import { z } from '@hono/zod-openapi';
import type { Site } from '../../discovery/site.ts';
import type { Fields, RecordOf, Values } from '../../system/base/record.ts';
import type { LiveSite } from '../site.ts';
import { answer, readLog } from './fields.ts';
import { type Api, defineRoute, recordResponse } from './route.ts';

/** A question about a site, which one record answers. */
interface View<Params extends z.ZodRawShape, Query extends z.ZodRawShape, F extends Fields> {
  /** By which generated clients call it: `listRuns`. */
  readonly operationId: string;
  readonly path: string;
  readonly summary: string;
  /** For who may only see states and figures, too: no value of its query may find out what the answer leaves out. */
  readonly permission?: 'wall';
  /** Values in the path. */
  readonly params?: Params;
  /** Values of the query. Default: it takes none. */
  readonly query?: Query;
  /** The answer, in a few words. */
  readonly says: string;
  readonly answers: RecordOf<F>;
  /** It has an answer where the log cannot be read, too. */
  readonly isWithoutLog?: true;
  read(site: Site, asked: Asked<Params> & Asked<Query>, live: LiveSite): Promise<Values<RecordOf<F>>>;
}

type Asked<Shape extends z.ZodRawShape> = z.infer<z.ZodObject<Shape>>;

type None = Readonly<Record<never, never>>;

/** A view as what adds its route to an API. */
export function view<F extends Fields, Params extends z.ZodRawShape = None, Query extends z.ZodRawShape = None>(
  asked: View<Params, Query, F>,
): (api: Api) => void {
  const { operationId, path, summary, permission = 'read', params, query = {}, says, answers, isWithoutLog } = asked;
  const request = { ...(params && { params: z.object(params) }), query: z.strictObject(query) };
  const responses = { 200: recordResponse(says, answers) };
  const route = defineRoute(permission, { operationId, method: 'get', path, summary, request, responses });
  return (api) =>
    api.openapi(route, async (c) => {
      const { site } = c.var;
      // Each by its schema, which has let it pass.
      const params = c.req.valid('param' as never) as Asked<Params>;
      const words = c.req.valid('query') as Asked<Query>;
      const read = (found: Site) => asked.read(found, { ...params, ...words }, site);
      return answer(c, answers.toJson(isWithoutLog ? await site.read(read) : await readLog(site, read))) as never;
    });
}
