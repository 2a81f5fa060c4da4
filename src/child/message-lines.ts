/**
 * Puts lines together from the pieces in which they arrive; each line is one message.
 *
 * @param maxLength one that is longer is handed on in parts: it is no message, and must not fill the memory
 */
export function splitLines(
  onLine: (line: string) => void,
  maxLength = Number.POSITIVE_INFINITY,
): (piece: string) => void {
  let parts: string[] = [];
  let length = 0;
  const add = (part: string): void => {
    parts.push(part);
    length += part.length;
  };
  const handOn = (): void => {
    const line = parts.length === 1 ? (parts[0] as string) : parts.join('');
    parts = [];
    length = 0;
    onLine(line);
  };
  return (piece) => {
    let start = 0;
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', start)) {
      add(piece.slice(start, end));
      start = end + 1;
      handOn();
    }
    if (start < piece.length) add(piece.slice(start));
    if (length > maxLength) handOn();
  };
}
