/**
 * The line of a setting in a config file, by searching for its keys one after another; null if they
 * are not written there as keys, as in settings put together by code.
 */
export function findSettingLine(source: string, path: readonly string[]): number | null {
  if (path.length === 0) return null;
  const lines = source.split('\n');
  let index = -1;
  for (const key of path) {
    const form = keyForm(key);
    index = lines.findIndex((line, at) => at >= Math.max(index, 0) && form.test(line));
    if (index === -1) return null;
  }
  return index + 1;
}

function keyForm(key: string): RegExp {
  const name = key.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^(?!\\s*(?://|\\*|/\\*)).*(?:^|[\\s{,'"\`])${name}['"\`]?\\s*:`);
}
