import { text } from 'node:stream/consumers';
import { parseExactly } from '../config/exact-json.ts';
import { UsageError } from '../config/usage-error.ts';
import type { JsonValue } from '../queue/queue.ts';

/** What an option says that stands for stdin: what is secret or large has no place among arguments. */
export const STDIN = '-';

/**
 * The value of an argument that is JSON, or names stdin.
 *
 * @throws {UsageError} that never shows the value: it may be secret
 */
export async function readJsonArgument(word: string, what: string): Promise<JsonValue> {
  return parseJson(word === STDIN ? await text(process.stdin) : word, what);
}

const shellExample = `'{"to":"a@example.org"}' in single quotes`;

/** Numbers stay as they are written, also where they have more digits than JavaScript keeps. */
export function parseJson(json: string, what: string, such = shellExample): JsonValue {
  try {
    return parseExactly(json) as JsonValue;
  } catch (error) {
    throw new UsageError(
      `${what} expects JSON, such as ${such}, found ${describeFault(json, error)}.`,
    );
  }
}

function describeFault(json: string, error: unknown): string {
  if (json.trim() === '') return 'nothing';
  if (error instanceof RangeError) return 'what is nested too deep';
  const [, position] = /at position (\d+)/.exec(String(error)) ?? [];
  if (position !== undefined) return `what is none from character ${Number(position) + 1} on`;
  return /end of JSON/.test(String(error)) ? 'what ends too early' : 'what is none';
}
