const LONGEST_SHOWN = 80;

/** A value that somebody gave, as a sentence shows it. */
export function describeFound(found: unknown): string {
  const text = writeFound(found);
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}

/** Anything can be given: what holds a circle or a BigInt is no JSON. */
function writeFound(found: unknown): string {
  if (typeof found === 'bigint') return `${found}n`;
  try {
    return JSON.stringify(found) ?? String(found);
  } catch {
    return 'what is no JSON';
  }
}
