/**
 * Whether a version of the log, such as `m9x2k1a.17`, is older than another one. Those of another start of the server
 * are unknown, and count as older.
 */
export function isOlder(version: string | null, other: string): boolean {
  const [start, count] = partsOf(version ?? '');
  const [otherStart, otherCount] = partsOf(other);
  return start !== otherStart || !(count >= otherCount);
}

function partsOf(version: string): [start: string, count: number] {
  const [start = '', count] = version.split('.');
  return [start, Number(count)];
}
