/** C collation, as run-parts sorts: by the bytes of UTF-8. JavaScript's own order differs beyond U+FFFF. */
export function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
