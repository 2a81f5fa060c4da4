import { countOf } from '../../../../report/text/format.ts';
import { printable } from '../../../../system/base/text.ts';

interface ThrownError {
  readonly name: string | null;
  readonly message: string | null;
  readonly stack: string | null;
}

/** What a script threw: what it says, where in the script, and folded away what else was on the stack. */
export function ErrorStack({ error }: { readonly error: ThrownError }) {
  const { title, own, foreign } = readStack(error);
  return (
    <div class="error-stack">
      <pre class="error-title">{title}</pre>
      {own.length > 0 && <pre>{own.join('\n')}</pre>}
      {foreign.length > 0 && (
        <details open={own.length === 0}>
          <summary>{countOf(foreign.length, 'more line')} of Node and of packages</summary>
          <pre>{foreign.join('\n')}</pre>
        </details>
      )}
    </div>
  );
}

interface Stack {
  readonly title: string;
  /** Frames of the script and what it imports from its own folder. */
  readonly own: readonly string[];
  readonly foreign: readonly string[];
}

const isFrame = /^\s+at /;

/** Of Node, of packages, and of what the runner loads into a script. */
const isForeignFrame =
  /[/\\]node_modules[/\\]|[/\\](?:probe|handler-host)-[\w.-]+\.cjs|\(?node:|\bat (?:async )?Promise\.|<anonymous>\)?$/;

function readStack({ name, message, stack }: ThrownError): Stack {
  const said = [name, message].filter(Boolean).join(': ');
  const lines = printable(stack ?? '')
    .trimEnd()
    .split('\n');
  const begin = lines.findIndex((line) => isFrame.test(line));
  const frames = begin === -1 ? [] : lines.slice(begin);
  const head = (begin === -1 ? lines : lines.slice(0, begin)).join('\n');
  const isForeign = (line: string): boolean => isFrame.test(line) && isForeignFrame.test(line);
  return {
    title: head.includes(printable(message ?? '')) && head !== '' ? head : printable(said),
    own: frames.filter((line) => !isForeign(line)),
    foreign: frames.filter(isForeign),
  };
}
