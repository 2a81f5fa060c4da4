import './output.css';
import type { ComponentChild } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { countOf, formatCount } from '../../../system/base/format.ts';
import type { StyledSpan, TerminalText } from './terminal-text.ts';

interface OutputViewProps {
  readonly output: TerminalText;
  /** Rises whenever something was appended. */
  readonly version: number;
  /** It is still being written: its end stays in view, unless the reader scrolls up. */
  readonly isLive?: boolean;
  /** Shows the end first, as the ending matters most. */
  readonly isEndFirst?: boolean;
  /** Names the output for screen readers. */
  readonly label: string;
  /** The name of the file that is downloaded: `run-12.txt`. Default: it cannot be. */
  readonly download?: { readonly file: string; readonly text: () => string } | undefined;
}

/** Maximum number of lines in the page at once. */
const WINDOW = 1000;

/** Output of a script: a window of lines, whatever its size, with search over all of it. */
export function OutputView({ output, version, isLive = false, isEndFirst = false, label, download }: OutputViewProps) {
  const box = useRef<HTMLElement>(null);
  const [isPinned, setPinned] = useState(isLive || isEndFirst);
  const [start, setStart] = useState<number | null>(null);
  const last = Math.max(0, output.count - WINDOW);
  const from = isPinned ? last : Math.min(start ?? (isLive || isEndFirst ? last : 0), last);
  const search = useSearch(output, version, (line) => {
    setPinned(false);
    setStart(Math.max(0, Math.min(last, line - WINDOW / 2)));
  });
  usePinned(box, isPinned, version);
  const current = search.current;
  useEffect(() => {
    if (current !== null) box.current?.querySelector('mark.current')?.scrollIntoView({ block: 'center' });
  }, [current, from]);
  const scrolled = (element: HTMLElement) => {
    const isFollowing = isLive && isAtEnd(element) && from === last;
    // Lines that are being read stay in place while new ones arrive.
    if (isPinned && !isFollowing) setStart(from);
    setPinned(isFollowing);
  };
  const move = (to: number) => {
    setPinned(false);
    setStart(to);
    box.current?.scrollTo(0, 0);
  };
  return (
    <div class="output">
      <div class="output-bar">
        <SearchField search={search} />
        {download !== undefined && (
          <button type="button" onClick={() => saveText(download.file, download.text())}>
            Download
          </button>
        )}
      </div>
      <Windows count={output.count} from={from} onMove={move} />
      <section
        ref={box}
        class="output-box"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
        tabIndex={0}
        aria-label={label}
        onScroll={({ currentTarget }) => scrolled(currentTarget)}
      >
        <pre>
          <Lines output={output} from={from} version={version} search={search} />
        </pre>
      </section>
      {isLive && !isPinned && (
        <button type="button" class="output-follow" onClick={() => setPinned(true)}>
          ↓ Follow the output again
        </button>
      )}
    </div>
  );
}

function isAtEnd({ scrollTop, scrollHeight, clientHeight }: HTMLElement): boolean {
  return scrollTop + clientHeight >= scrollHeight - 4;
}

function usePinned(box: { readonly current: HTMLElement | null }, isPinned: boolean, version: number): void {
  useEffect(() => {
    const element = box.current;
    if (!isPinned || element === null) return;
    // Also when it gets another width, by which its lines are broken.
    const resized = new ResizeObserver(() => element.scrollTo(0, element.scrollHeight));
    resized.observe(element);
    return () => resized.disconnect();
  }, [isPinned, version]);
}

interface LinesProps {
  readonly output: TerminalText;
  readonly from: number;
  readonly version: number;
  readonly search: Search;
}

function Lines({ output, from, version, search: { matches, current } }: LinesProps) {
  const count = Math.min(WINDOW, output.count - from);
  const byLine = useMemo(() => Map.groupBy(matches, ({ line }) => line), [matches]);
  const rows = useMemo(
    () =>
      Array.from({ length: Math.max(0, count) }, (_, row) => ({ line: from + row, spans: output.spansOf(from + row) })),
    [output, from, version],
  );
  if (rows.length === 0) return <span class="output-none">Nothing was written.</span>;
  return (
    <>
      {rows.map(({ line, spans }) => (
        <div key={line} data-line={line + 1}>
          {splitAtMatches(spans, byLine.get(line) ?? []).map(({ span, match }, index) => (
            <Piece key={index} span={span} match={match} isCurrent={match !== null && match === current} />
          ))}
          {'\n'}
        </div>
      ))}
    </>
  );
}

function Piece({ span, match, isCurrent }: { span: StyledSpan; match: Match | null; isCurrent: boolean }) {
  const { text, look, color, background } = span;
  const style = {
    ...(color === null ? {} : { '--ansi-fg': color }),
    ...(background === null ? {} : { '--ansi-bg': background }),
  };
  const shown: ComponentChild = match === null ? text : <mark class={isCurrent ? 'current' : ''}>{text}</mark>;
  if (look === '') return shown;
  return (
    <span class={look} style={style}>
      {shown}
    </span>
  );
}

/** Colours may change within a match, and matches begin within a colour. */
function splitAtMatches(
  spans: readonly StyledSpan[],
  matches: readonly Match[],
): { span: StyledSpan; match: Match | null }[] {
  if (matches.length === 0) return spans.map((span) => ({ span, match: null }));
  let at = 0;
  return spans.flatMap((span) => {
    const begin = at;
    at += span.text.length;
    const edges = matches.flatMap(({ start, end }) => [start, end]).filter((edge) => edge > begin && edge < at);
    const cuts = [begin, ...edges, at];
    return cuts.slice(0, -1).map((from, index) => ({
      span: { ...span, text: span.text.slice(from - begin, (cuts[index + 1] as number) - begin) },
      match: matches.find(({ start, end }) => from >= start && from < end) ?? null,
    }));
  });
}

interface Search {
  readonly text: string;
  readonly matches: readonly Match[];
  readonly current: Match | null;
  readonly isCut: boolean;
  readonly setText: (text: string) => void;
  readonly go: (step: 1 | -1) => void;
}

function useSearch(output: TerminalText, version: number, show: (line: number) => void): Search {
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

function SearchField({ search: { text, matches, current, isCut, setText, go } }: { readonly search: Search }) {
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
      <output>{text === '' ? '' : place}</output>
    </form>
  );
}

interface WindowsProps {
  readonly count: number;
  readonly from: number;
  readonly onMove: (from: number) => void;
}

/** Which lines of a long output are shown, and the way to the others. */
function Windows({ count, from, onMove }: WindowsProps) {
  if (count <= WINDOW) return null;
  const last = count - WINDOW;
  const to = (name: string, target: number, isDisabled: boolean) => (
    <button type="button" disabled={isDisabled} onClick={() => onMove(Math.min(last, Math.max(0, target)))}>
      {name}
    </button>
  );
  return (
    <div class="output-windows">
      {to('First', 0, from === 0)}
      {to('Earlier', from - WINDOW, from === 0)}
      <span>
        Lines {formatCount(from + 1)} to {formatCount(from + WINDOW)} of {countOf(count, 'line')}
      </span>
      {to('Later', from + WINDOW, from === last)}
      {to('Last', last, from === last)}
    </div>
  );
}

/** As a file, exactly as it was written. */
function saveText(file: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** A place where the text was found, by its columns in the line. */
interface Match {
  readonly line: number;
  readonly start: number;
  readonly end: number;
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
