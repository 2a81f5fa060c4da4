import { useMemo, useState } from 'preact/hooks';
import { formatCount } from '../../../system/base/format.ts';
import type { Match } from './pieces.ts';
import type { TerminalText } from './terminal-text.ts';

/** A search in an output: its text, and the places where the text stands. */
export interface Search {
  readonly text: string;
  readonly matches: readonly Match[];
  readonly current: Match | null;
  readonly isCut: boolean;
  readonly setText: (text: string) => void;
  readonly go: (step: 1 | -1) => void;
}

export function useSearch(output: TerminalText, version: number, show: (line: number) => void): Search {
  const [text, setText] = useState('');
  const [index, setIndex] = useState<number | null>(null);
  const { matches, isCut } = useMemo(() => findMatches(output, text), [output, version, text]);
  const current = index === null ? null : (matches[index] ?? null);
  const goTo = (to: number) => {
    const next = (to + matches.length) % matches.length;
    const match = matches[next];
    setIndex(match === undefined ? null : next);
    if (match !== undefined) show(match.line);
  };
  return {
    ...{ text, matches, current, isCut },
    setText: (next) => {
      setText(next);
      setIndex(null);
    },
    go: (step) => goTo(index === null ? (step === 1 ? 0 : -1) : index + step),
  };
}

interface OutputSearchProps {
  readonly search: Search;
  /** The range of the search: `in 3,210 lines`. */
  readonly where: string;
}

export function OutputSearch({ search, where }: OutputSearchProps) {
  const { text, matches, current, isCut, setText, go } = search;
  const total = `${formatCount(matches.length)}${isCut ? '+' : ''}`;
  const place = current === null ? total : `${formatCount(matches.indexOf(current) + 1)} of ${total}`;
  return (
    <form
      class="output-search"
      onSubmit={(event) => {
        event.preventDefault();
        go(1);
      }}
    >
      <input
        type="search"
        aria-label="Search in the output"
        placeholder="Search in the output"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !event.shiftKey) return;
          event.preventDefault();
          go(-1);
        }}
      />
      <button type="button" aria-label="Match before this one" disabled={matches.length === 0} onClick={() => go(-1)}>
        ↑
      </button>
      <button type="submit" aria-label="Next match" disabled={matches.length === 0}>
        ↓
      </button>
      <output>{text === '' ? '' : `${place} ${where}`}</output>
    </form>
  );
}

const MOST = 10_000;

/** All places of the text, upper case or lower; the first 10,000 of them. */
function findMatches(output: TerminalText, text: string): { matches: Match[]; isCut: boolean } {
  const matches: Match[] = [];
  if (text === '') return { matches, isCut: false };
  const wanted = text.toLowerCase();
  for (let line = 0; line < output.count; line += 1) {
    const plain = output.plain(line).toLowerCase();
    for (let start = plain.indexOf(wanted); start !== -1; start = plain.indexOf(wanted, start + wanted.length)) {
      if (matches.length === MOST) return { matches, isCut: true };
      matches.push({ line, start, end: start + wanted.length });
    }
  }
  return { matches, isCut: false };
}
