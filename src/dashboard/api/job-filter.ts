import type { z } from '@hono/zod-openapi';
import type { JobSelection } from '../../queue/settle/many.ts';
import { readJobStates } from '../../report/text/filters.ts';
import { jobStates } from '../../store/words.ts';
import { anyOf, readWindow, searchSchema, textSchema, windowFields } from './fields.ts';

const stateWords = [...jobStates, 'ready', 'delayed'] as const;

/** The words by which jobs are chosen, for lists and for changes of many. */
export const jobFilterFields = {
  ...windowFields,
  state: anyOf(stateWords)
    .optional()
    .openapi({ description: '`ready` and `delayed` are the parts of those that wait: `queued` and `retrying`' }),
  name: textSchema.optional().openapi({ example: 'mail/*', description: 'A name, or a pattern' }),
  search: searchSchema.openapi({ description: 'Exact text in data, result or reason, A to Z in either case' }),
};

type JobFilterWords = z.infer<z.ZodObject<typeof jobFilterFields>>;

/** @throws {InvalidParameter} for a window that ends before it begins, and for states that do not go together */
export function readJobFilter({ state, name, search, ...words }: JobFilterWords, nowMs: number) {
  const { sinceMs: since, untilMs: until } = readWindow(words, nowMs);
  const states = state === undefined ? {} : readJobStates(state.join(','));
  return { ...states, pattern: name, search, since, until } satisfies JobSelection;
}
