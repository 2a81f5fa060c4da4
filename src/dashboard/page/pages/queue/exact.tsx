import type { VNode } from 'preact';
import { useState } from 'preact/hooks';

/** Texts, signs, and numbers and names. */
const words = /"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^"[\]{},:\s]+/g;

/**
 * The text of an object's member, letter by letter: parsed and written again, long numbers would lose digits.
 * Null: it has no such member.
 */
export function textOfMember(text: string, key: string): string | null {
  let found: string | null = null;
  let name: string | null = null;
  let depth = 0;
  let [before, start] = ['', 0];
  for (const { 0: word, index } of text.matchAll(words)) {
    if (depth === 1 && name === null && word === ':') {
      name = JSON.parse(before) as string;
      start = index + 1;
    } else if (depth === 1 && (word === ',' || word === '}')) {
      if (name === key) found = text.slice(start, index).trim();
      name = null;
    }
    if (word === '{' || word === '[') depth += 1;
    if (word === '}' || word === ']') depth -= 1;
    before = word;
  }
  return found;
}

interface Piece {
  readonly kind: 'key' | 'text' | 'number' | 'sign';
  readonly text: string;
}

/** The same JSON with one member on each line; its words stay as they are. */
export function indentExactly(text: string): Piece[] {
  const found = [...text.matchAll(words)].map(([word]) => word);
  const pieces: Piece[] = [];
  let depth = 0;
  const line = (): string => `\n${'  '.repeat(Math.min(depth, 40))}`;
  found.forEach((word, index) => {
    const next = found[index + 1];
    if (word === '{' || word === '[') {
      const isEmpty = next === '}' || next === ']';
      depth += 1;
      pieces.push({ kind: 'sign', text: isEmpty ? word : word + line() });
    } else if (word === '}' || word === ']') {
      depth -= 1;
      const isEmpty = found[index - 1] === '{' || found[index - 1] === '[';
      pieces.push({ kind: 'sign', text: isEmpty ? word : line() + word });
    } else if (word === ',') pieces.push({ kind: 'sign', text: word + line() });
    else if (word === ':') pieces.push({ kind: 'sign', text: ': ' });
    else if (word.startsWith('"')) pieces.push({ kind: next === ':' ? 'key' : 'text', text: word });
    else pieces.push({ kind: 'number', text: word });
  });
  return pieces;
}

/** What a browser shows without getting slow. */
const MOST_LETTERS = 100_000;
const MOST_PIECES = 5_000;

/** JSON for people, exactly as it is in the log. What is long is shown when asked for. */
export function ExactText({ text, label }: { readonly text: string; readonly label: string }): VNode {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > MOST_LETTERS;
  const shown = isLong && !isWhole ? null : indentExactly(text);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard has to reach it */}
      <section class="json" tabIndex={0} aria-label={label}>
        <pre>{shown === null ? `${text.slice(0, MOST_LETTERS)}…` : <Pieces pieces={shown} />}</pre>
      </section>
      {isLong && !isWhole && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {Math.ceil(text.length / 1024).toLocaleString('en')} KB
        </button>
      )}
    </>
  );
}

function Pieces({ pieces }: { readonly pieces: readonly Piece[] }) {
  if (pieces.length > MOST_PIECES) return <>{pieces.map(({ text }) => text).join('')}</>;
  return (
    <>
      {pieces.map(({ kind, text }, index) => (
        // Pieces have no other name than their place, and never move.
        <span key={index} class={kind}>
          {text}
        </span>
      ))}
    </>
  );
}
