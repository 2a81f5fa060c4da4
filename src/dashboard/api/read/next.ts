import { EXPECTED_END, isNearEnough, nextRecord, readNext } from '../../../report/model/next/next.ts';
import { parseDurationMs } from '../../../settings/readers.ts';
import { textSchema, wholeNumber } from '../fields.ts';
import { InvalidParameter } from '../route.ts';
import { view } from '../view.ts';

const MOST_ITEMS = 5_000;

const durationSchema = textSchema.refine((text) => parseDurationMs(text) !== null, {
  error: ({ input }) => `must be a duration such as 1h, 24h or 7d, found ${JSON.stringify(input)}`,
});

export const nextView = view({
  operationId: 'getNext',
  path: '/api/next',
  summary: 'What will run, and what did not come, as `npx folder-runner next --json` prints it',
  permission: 'wall',
  query: {
    for: durationSchema.default('24h').openapi({ description: 'How far to look ahead: at most 31d', example: '24h' }),
    tier: textSchema.optional().openapi({ description: 'Only this tier; `queue`: only jobs of the queue' }),
    limit: wholeNumber(1, MOST_ITEMS).default(100),
  },
  says: 'What comes',
  answers: nextRecord,
  isWithoutLog: true,
  read: async (site, { for: ahead, tier, limit }) => {
    const untilMs = site.nowMs + (parseDurationMs(ahead) ?? 0);
    if (!isNearEnough(site.nowMs, untilMs)) throw new InvalidParameter('for', `must end ${EXPECTED_END}`);
    return await readNext(site, { untilMs, tier, limit });
  },
});
