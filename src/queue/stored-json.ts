import type { JsonValue } from './queue.ts';

/** How JSON is read: by `JSON.parse`, unless it is only to be written again. */
export type JsonReader = (text: string) => unknown;

/** What a row holds as JSON; null where that cannot be read: plain SQL may have written it. */
export function readStoredJson(text: string | null, read: JsonReader = JSON.parse): JsonValue {
  try {
    return text === null ? null : (read(text) as JsonValue);
  } catch {
    return null;
  }
}
