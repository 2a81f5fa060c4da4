import type { Kysely } from 'kysely';
import type { ActivityLog } from './schema.ts';

/** What queries of the activity log are asked of. */
export type Database = Kysely<ActivityLog>;
