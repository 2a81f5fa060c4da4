/** The part of amaro that is used here; the package has no types. */
declare module 'amaro' {
  export function transformSync(
    source: string,
    options: { readonly mode: 'transform'; readonly sourceMap: boolean; readonly filename: string },
  ): { readonly code: string; readonly map?: string };
}
