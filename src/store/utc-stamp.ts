/** UTC, so that the order of the names is the order in time: 20261231-235959. */
export function utcStamp(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
}
