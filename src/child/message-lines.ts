/** Puts lines together from the pieces in which they arrive; each line is one message. */
export function splitLines(onLine: (line: string) => void): (piece: string) => void {
  let parts: string[] = [];
  return (piece) => {
    let start = 0;
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', start)) {
      const line = piece.slice(start, end);
      start = end + 1;
      const whole = parts.length === 0 ? line : parts.join('') + line;
      parts = [];
      onLine(whole);
    }
    if (start < piece.length) parts.push(piece.slice(start));
  };
}
