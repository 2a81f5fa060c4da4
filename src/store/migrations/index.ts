import type { Migration } from 'kysely';
import { activityLog } from './0001-activity-log.ts';

/** In order of their names; one that was released is never changed again. */
export const migrations: Readonly<Record<string, Migration>> = {
  '0001-activity-log': activityLog,
};
