import './output.css';
import type { ComponentChild } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { countOf, formatCount } from '../../../system/base/format.ts';
import { isWrapped } from '../frame/preferences.ts';
import { hrefOf } from '../router.ts';
import { cutLine, type Piece } from './pieces.ts';
import { OutputSearch, type Search, useSearch } from './search.tsx';
import type { TerminalText } from './terminal-text.ts';

interface OutputViewProps {
  readonly output: TerminalText;
  /** Rises whenever something was appended. */
  readonly version: number;
  /** It is still being written: its end stays in view, unless the reader scrolls up. */
  readonly isLive?: boolean;
  /** Shows the end first, as the ending matters most. */
  readonly isEndFirst?: boolean;
  /** The run that writes it: each line has an address on its page. */
  readonly run: number;
  /** The number of the line that is looked for; null: none is. */
  readonly line: number | null;
  /** A match was gone to, in the line of this number. */
  readonly onFound: (line: number) => void;
  /** All of it, as it was written. */
  readonly raw: () => string;
}

/** Maximum number of lines in the page at once. */
const WINDOW = 1000;

/** Output of a script: a window of lines, whatever its size, with search over all of it. */
export function OutputView(props: OutputViewProps) {
  const { output, version, isLive = false, isEndFirst = false, run, line, onFound, raw } = props;
  const box = useRef<HTMLElement>(null);
  const [isPinned, setPinned] = useState(isLive || isEndFirst);
  const [start, setStart] = useState<number | null>(null);
  const last = Math.max(0, output.count - WINDOW);
  const from = isPinned ? last : Math.min(start ?? (isLive || isEndFirst ? last : 0), last);
  const showAround = (index: number) => {
    setPinned(false);
    setStart(Math.max(0, Math.min(last, index - WINDOW / 2)));
  };
  const reached = useLine(box, { output, line, from }, showAround);
  const search = useSearch(output, version, (index) => {
    showAround(index);
    const number = output.numberOf(index);
    if (number === null) return;
    reached.current = number;
    onFound(number);
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
  const whole = `in ${countOf(numberAt(output, output.count - 1), 'line')}`;
  return (
    <div class="output">
      <div class="output-bar">
        <OutputSearch search={search} where={output.gaps.length === 0 ? whole : `${whole}, not in what is left out`} />
        <label>
          <input
            type="checkbox"
            checked={isWrapped.value}
            onChange={({ currentTarget }) => {
              isWrapped.value = currentTarget.checked;
            }}
          />
          Wrap lines
        </label>
        <button type="button" onClick={() => saveText(`run-${run}.txt`, raw())}>
          Download
        </button>
      </div>
      <Gaps output={output} run={run} />
      <Windows output={output} from={from} onMove={move} />
      <section
        ref={box}
        class="output-box"
        data-wrap={isWrapped.value}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
        tabIndex={0}
        aria-label={`Output of run ${run}`}
        onScroll={({ currentTarget }) => scrolled(currentTarget)}
      >
        <pre style={{ '--digits': String(numberAt(output, from + WINDOW)).length }}>
          <Lines
            {...{ output, from, version, search, run, line }}
            onLine={(number) => {
              reached.current = number;
            }}
          />
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

interface LineWanted {
  readonly output: TerminalText;
  /** Its number; null: none is looked for. */
  readonly line: number | null;
  readonly from: number;
}

/** Shows the line that the address names, once: the viewer may scroll on. Returns the one that was shown. */
function useLine(
  box: { readonly current: HTMLElement | null },
  { output, line, from }: LineWanted,
  show: (index: number) => void,
): { current: number | null } {
  const reached = useRef<number | null>(null);
  const index = line === null ? null : output.indexOf(line);
  const isThere = index !== null && index < output.count;
  useEffect(() => {
    if (!isThere || reached.current === line) return;
    const found = box.current?.querySelector(`[data-line="${line}"]`);
    if (!found) return show(index);
    reached.current = line;
    // Those who follow the end of an output stay where the line is.
    show(index);
    found.scrollIntoView({ block: 'center' });
  }, [line, isThere, from]);
  return reached;
}

/** The number of the line that this index belongs to. */
function numberAt(output: TerminalText, index: number): number {
  for (let at = Math.min(index, output.count - 1); at > 0; at -= 1) {
    const number = output.numberOf(at);
    if (number !== null) return number;
  }
  return output.count === 0 ? 0 : 1;
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

interface LinesProps extends LineWanted {
  readonly version: number;
  readonly search: Search;
  readonly run: number;
  /** The address of a line was chosen. */
  readonly onLine: (line: number) => void;
}

function Lines({ output, from, version, search: { matches, current }, run, line: wanted, onLine }: LinesProps) {
  const count = Math.min(WINDOW, output.count - from);
  const byLine = useMemo(() => Map.groupBy(matches, ({ line }) => line), [matches]);
  const rows = useMemo(
    () =>
      Array.from({ length: Math.max(0, count) }, (_, row) => {
        const line = from + row;
        return { line, number: output.numberOf(line), spans: output.spansOf(line) };
      }),
    [output, from, version],
  );
  if (rows.length === 0) return <span class="output-none">Nothing was written.</span>;
  const gaps = new Set(output.gaps.map(({ index }) => index));
  return (
    <>
      {rows.map(({ line, number, spans }) => (
        <div key={line} data-line={number} class={lookOfLine(number === wanted, gaps.has(line))}>
          {number !== null && (
            // biome-ignore lint/a11y/useAnchorContent: who cannot point gets the address of a line by the search
            <a
              class="line-number"
              href={hrefOf('/runs', run, { line: String(number) })}
              data-number={number}
              tabIndex={-1}
              aria-hidden="true"
              onClick={() => onLine(number)}
            />
          )}
          {cutLine(spans, byLine.get(line) ?? []).map((piece, index) => (
            <ShownPiece key={index} piece={piece} isCurrent={piece.match !== null && piece.match === current} />
          ))}
          {'\n'}
        </div>
      ))}
    </>
  );
}

function lookOfLine(isWanted: boolean, isGap: boolean): string | undefined {
  if (isWanted) return 'line-wanted';
  return isGap ? 'line-gap' : undefined;
}

function ShownPiece({
  piece: { span, match, href },
  isCurrent,
}: {
  readonly piece: Piece;
  readonly isCurrent: boolean;
}) {
  const { text, look, color, background } = span;
  const style = {
    ...(color === null ? {} : { '--ansi-fg': color }),
    ...(background === null ? {} : { '--ansi-bg': background }),
  };
  let shown: ComponentChild = match === null ? text : <mark class={isCurrent ? 'current' : ''}>{text}</mark>;
  if (href !== null) {
    shown = (
      <a href={href} target="_blank" rel="noopener noreferrer">
        {shown}
      </a>
    );
  }
  if (look === '') return <>{shown}</>;
  return (
    <span class={look} style={style}>
      {shown}
    </span>
  );
}

/** A mark at each place where the output has a gap, with the gap's size. */
function Gaps({ output, run }: { readonly output: TerminalText; readonly run: number }) {
  if (output.gaps.length === 0) return null;
  return (
    <p class="quiet small">
      {output.gaps.map(({ index, bytes }) => (
        <span key={index}>
          {countOf(bytes, 'byte')} left out{' '}
          <a href={hrefOf('/runs', run, { line: String(output.numberOf(index)) })}>
            at line {formatCount(output.numberOf(index) ?? 0)}
          </a>
          .{' '}
        </span>
      ))}
    </p>
  );
}

interface WindowsProps {
  readonly output: TerminalText;
  readonly from: number;
  readonly onMove: (from: number) => void;
}

/** Which lines of a long output are shown, and the way to the others. */
function Windows({ output, from, onMove }: WindowsProps) {
  const { count } = output;
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
        Lines {formatCount(numberAt(output, from))} to {formatCount(numberAt(output, from + WINDOW - 1))} of{' '}
        {countOf(numberAt(output, count - 1), 'line')}
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
