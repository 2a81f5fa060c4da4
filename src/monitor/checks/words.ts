import prettyMilliseconds from 'pretty-ms';

/** `3h 5m`, `42s`; unknown if a clock that was set back makes it negative. */
export function lasting(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 0 ? 'an unknown time' : prettyMilliseconds(seconds * 1000, { unitCount: 2 });
}

/** `3.2×`, `12×`. */
export function describeRatio(ratio: number): string {
  return `${ratio < 10 ? Math.floor(ratio * 10) / 10 : Math.floor(ratio)}×`;
}

/** `512 MB`, `12 GB`: rounded down. */
export function roughly(bytes: number): string {
  const megabytes = bytes / 1024 ** 2;
  return megabytes < 10 * 1024 ? `${Math.floor(megabytes)} MB` : `${Math.floor(megabytes / 1024)} GB`;
}
