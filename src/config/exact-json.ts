/** Not among TypeScript's types yet. */
interface ExactJson {
  parse(text: string, revive: (key: string, value: unknown, source: Source) => unknown): unknown;
  /** Stands for this text wherever it is written as JSON. */
  rawJSON(text: string): object;
}

interface Source {
  /** Of what is neither an object nor a list. */
  readonly source?: string;
}

const { parse, rawJSON } = JSON as unknown as ExactJson;

/**
 * Reads JSON that is only to be written again: each number stays as it stands there, also one that has
 * more digits than a number here can hold.
 *
 * @throws {SyntaxError} if it is none
 * @throws {RangeError} if it is nested too deep
 */
export function parseExactly(text: string): unknown {
  return parse(text, (_, value, { source }) =>
    typeof value === 'number' && String(value) !== source ? rawJSON(source as string) : value,
  );
}
