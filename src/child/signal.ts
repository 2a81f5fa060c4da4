/** The `AbortSignal` of whoever compiles against this; what is left of it where no library has one. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer Known } }
  ? Known
  : { readonly aborted: boolean };
