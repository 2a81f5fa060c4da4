/** How many migrations there are; stored as the file's `user_version`. */
export const SCHEMA_VERSION = 1;
