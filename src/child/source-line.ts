import { isAbsolute } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Makes Node print an error as it is. Otherwise Node prints the line that throws above it, which belongs to Node or to
 * the runner when a module is looked for or compiled.
 */
export function withoutSourceLine(error: Error): Error {
  const { stack } = error;
  decorate(error);
  if (stack !== undefined) error.stack = stack;
  return error;
}

/**
 * A syntax error of JavaScript has only frames of Node, and Node keeps its place for the moment of printing. This puts
 * the place into the stack, as the compiler of TypeScript does.
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

/** Node adds the line to the stack of an error thrown by a script of `node:vm`, and only once. */
function decorate(error: Error): void {
  const { runInNewContext } = process.getBuiltinModule('node:vm');
  try {
    runInNewContext('throw error', { error });
  } catch {}
}
