let tokens = 0;

/** A name that no process uses twice. Not from `node:crypto`, which a start would wait 5 ms for. */
export function newToken(): string {
  tokens += 1;
  const random = Math.random().toString(36).slice(2, 12);
  return `${process.pid}-${Date.now().toString(36)}-${tokens}-${random}`;
}
