export type DefaultFunction<Context> = (context: Context) => unknown;

/** `export default`, `exports.default` or `module.exports =` a function. */
export function findDefault<Context>(exported: unknown): DefaultFunction<Context> | null {
  if (typeof exported === 'function') {
    return isClass(exported) ? null : (exported as DefaultFunction<Context>);
  }
  if (typeof exported !== 'object' || exported === null) return null;
  const { default: inner } = exported as { readonly default?: unknown };
  return inner === exported ? null : findDefault(inner);
}

/** Made for others to use; it cannot be called. */
function isClass(exported: object): boolean {
  return Function.prototype.toString.call(exported).startsWith('class');
}
