import bytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';

/** `44.1MB`, in powers of 1024. */
export function sizeOf(count: number): string {
  return bytes.format(count, { decimalPlaces: 1 }) ?? String(count);
}

/** `3h 5m` */
export function timeOf(ms: number): string {
  return prettyMilliseconds(Math.round(ms / 1000) * 1000, { unitCount: 2 });
}

/** `1 script`, `3 scripts`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

/** The first few names, and how many more there are. */
export function listOf(names: readonly string[], most = 3): string {
  const shown = names.slice(0, most).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}
