/** Of what Node prints when it fails, the line that says why: it begins with the place in its own source. */
export function errorLine(printed: string): string | null {
  return /^\w*Error(?: \[\w+\])?: .*/m.exec(printed)?.[0] ?? null;
}
