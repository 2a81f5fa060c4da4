import { z } from '@hono/zod-openapi';
import { readRunOutput } from '../../../report/model/runs/output.ts';
import { readOutputFrom } from '../../../report/model/runs/output-part.ts';
import { idSchema, readLog, wholeNumber } from '../fields.ts';
import { type Api, defineRoute } from '../route.ts';
import { findRun } from './runs.ts';

const flag = z.enum(['true', 'false']);

const outputRoute = defineRoute('read', {
  method: 'get',
  path: '/api/runs/{id}/output',
  summary: 'What a run wrote, or has written so far',
  description:
    'The text as it was written, secrets masked, terminal sequences included: all that is kept. With `from`, what ' +
    'was written from that byte on, 512 KB at most: to follow a run, ask again from `X-Next` until it is over.',
  request: {
    params: z.object({ id: idSchema }),
    query: z.strictObject({ from: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional() }),
  },
  responses: {
    200: {
      description: 'The text',
      headers: z.object({
        'X-Next': z.string().optional().openapi({ description: 'From where to ask the next time' }),
        'X-Anew': flag.optional().openapi({ description: 'The text stands for all that came before it, too' }),
        'X-Over': flag.optional().openapi({ description: 'Nothing will follow' }),
      }),
      content: { 'text/plain': { schema: z.string() } },
    },
  },
});

export function addOutputRoute(api: Api): void {
  api.openapi(outputRoute, async (c) => {
    const { id } = c.req.valid('param');
    const { from } = c.req.valid('query');
    const { site } = c.var;
    if (from === undefined) {
      const run = await readLog(site, ({ view }) => findRun(view, id));
      const text = ReadableStream.from(readRunOutput(site.state, run, true)).pipeThrough(new TextEncoderStream());
      // Piece by piece, which the type of a text knows nothing of.
      return c.body(text as ReadableStream, 200, { 'content-type': 'text/plain; charset=UTF-8' }) as never;
    }
    const part = await readLog(site, async ({ view }) => readOutputFrom(view, await findRun(view, id), from));
    const { text, next, isAnew, isOver } = part;
    return c.text(text, 200, { 'X-Next': String(next), 'X-Anew': String(isAnew), 'X-Over': String(isOver) });
  });
}
