import { isAbsolute } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * An error that Node prints as it is. Else Node puts the line above it that throws, which is one of its own or of the
 * runner's wherever a module is looked for or compiled.
 */
export function withoutSourceLine(error: Error): Error {
  const { stack } = error;
  decorate(error);
  if (stack !== undefined) error.stack = stack;
  return error;
}

/**
 * A syntax error of JavaScript comes with frames of Node alone, and Node holds its place for the moment of printing:
 * puts that place into its stack, as the compiler of TypeScript does.
 */
export function nameSyntaxError(error: SyntaxError): void {
  const { stack = '' } = error;
  const frames = stack.split(FRAME).slice(1);
  if (frames.length === 0 || !frames.every((frame) => /\(?node:[\w/]+:\d/.test(frame))) return;
  decorate(error);
  const [head = ''] = String(error.stack).split(FRAME);
  const place = /^(.+:\d+)\n/.exec(head)?.[1];
  const path = place?.startsWith('file:') ? fileURLToPath(place) : place;
  error.stack = path === undefined || !isAbsolute(path) ? stack : `${head}${FRAME}${path}`;
}

const FRAME = '\n    at ';

/** Node puts the line into the stack of what a script of `node:vm` throws, and never again. */
function decorate(error: Error): void {
  const { runInNewContext } = process.getBuiltinModule('node:vm');
  try {
    runInNewContext('throw error', { error });
  } catch {}
}
