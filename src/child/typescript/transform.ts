import { transformSync } from 'amaro';

/** Returns JavaScript with an inline source map: unlike stripped code it does not keep its columns. */
export function transformTypeScript(path: string, source: string): string {
  const { code, map } = transformSync(source, {
    mode: 'transform',
    sourceMap: true,
    filename: path,
  });
  if (!map) return code;
  const encoded = Buffer.from(map).toString('base64');
  return `${code}\n//# sourceMappingURL=data:application/json;base64,${encoded}`;
}
