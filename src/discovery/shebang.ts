/** The `#!` line, taken apart as the kernel does: everything after the interpreter is one argument. */
export interface Shebang {
  readonly line: string;
  readonly interpreter: string;
  readonly argument: string | null;
  readonly endsInCarriageReturn: boolean;
}

/** Null if the file does not begin with `#!`. An empty interpreter means an empty `#!` line. */
export function parseShebang(source: string): Shebang | null {
  if (!source.startsWith('#!')) return null;
  const line = source.split('\n', 1)[0] ?? '';
  const words = line
    .slice(2)
    .replace(/\r$/, '')
    .replace(/^[ \t]+|[ \t]+$/g, '');
  const [interpreter = ''] = words.split(/[ \t]/, 1);
  const argument = words.slice(interpreter.length).replace(/^[ \t]+/, '');
  return {
    line,
    interpreter,
    argument: argument === '' ? null : argument,
    endsInCarriageReturn: line.endsWith('\r'),
  };
}
