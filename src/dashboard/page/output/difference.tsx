import { diffArrays } from 'diff';
import { useMemo, useState } from 'preact/hooks';
import { countOf } from '../../../system/base/format.ts';
import type { TerminalText } from './terminal-text.ts';

interface DifferenceProps {
  readonly before: TerminalText;
  readonly after: TerminalText;
}

/** Line by line what an output has that the one before had not, and the other way round. */
export function Difference({ before, after }: DifferenceProps) {
  const [isLoose, setLoose] = useState(false);
  const parts = useMemo(() => compareLines(linesOf(before), linesOf(after), isLoose), [before, after, isLoose]);
  return (
    <div class="difference">
      <label>
        <input type="checkbox" checked={isLoose} onChange={({ currentTarget }) => setLoose(currentTarget.checked)} />
        Leave numbers and times out of the comparison
      </label>
      <Parts parts={parts} />
      {Math.max(before.count, after.count) > MOST_LINES && <p>Only the last {MOST_LINES} lines were compared.</p>}
    </div>
  );
}

function Parts({ parts }: { readonly parts: readonly Part[] | null }) {
  if (parts === null) return <p>The two have too little in common to be compared.</p>;
  if (parts.every(({ kind }) => kind === 'same')) return <p>Both are the same.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section class="output-box" tabIndex={0} aria-label="Difference to the last good output">
      <pre>
        {parts.flatMap((part, index) =>
          fold(part, index === 0, index === parts.length - 1).map((line, row) => (
            <div key={`${index}.${row}`} class={`line-${line.kind}`}>
              {signs[line.kind]} {line.text}
              {'\n'}
            </div>
          )),
        )}
      </pre>
    </section>
  );
}

const signs = { same: ' ', added: '+', removed: '−', folded: '⋯' } as const;

interface Part {
  readonly kind: 'same' | 'added' | 'removed';
  readonly lines: readonly string[];
}

/** More than so many lines, or so many differences, would keep the browser busy for too long. */
const MOST_LINES = 5000;
const MOST_EDITS = 2000;
const LONGEST_MS = 1000;

function linesOf(output: TerminalText): string[] {
  const from = Math.max(0, output.count - MOST_LINES);
  return Array.from({ length: output.count - from }, (_, index) => output.plain(from + index));
}

/** Null: there is more that differs than can be found out in time. */
function compareLines(before: readonly string[], after: readonly string[], isLoose: boolean): Part[] | null {
  const keyOf = (line: string) => (isLoose ? line.replace(/\d[\d.,:]*/g, '#') : line);
  const bounds = { maxEditLength: MOST_EDITS, timeout: LONGEST_MS };
  const changes = diffArrays(before.map(keyOf), after.map(keyOf), bounds);
  if (changes === undefined) return null;
  let [old, fresh] = [0, 0];
  return changes.map(({ added, removed, count }): Part => {
    if (removed) {
      old += count;
      return { kind: 'removed', lines: before.slice(old - count, old) };
    }
    fresh += count;
    if (!added) old += count;
    return { kind: added ? 'added' : 'same', lines: after.slice(fresh - count, fresh) };
  });
}

interface ShownLine {
  readonly kind: Part['kind'] | 'folded';
  readonly text: string;
}

const AROUND = 3;

/** Of what is the same, a few lines before and after each difference. */
function fold({ kind, lines }: Part, isFirst: boolean, isLast: boolean): ShownLine[] {
  const shown = (some: readonly string[]): ShownLine[] => some.map((text) => ({ kind, text }));
  const [head, tail] = [isFirst ? 0 : AROUND, isLast ? 0 : AROUND];
  const left = lines.length - head - tail;
  if (kind !== 'same' || left <= 1) return shown(lines);
  const folded: ShownLine = { kind: 'folded', text: countOf(left, 'line that is the same', 'lines that are the same') };
  return [...shown(lines.slice(0, head)), folded, ...shown(tail === 0 ? [] : lines.slice(-tail))];
}
