import { diffArrays } from 'diff';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { countOf } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Notice } from '../../components/page.tsx';
import { client, UNREACHABLE } from '../../data.ts';
import { OutputView } from '../../output/output-view.tsx';
import { TerminalText } from '../../output/terminal-text.ts';
import { place, setQuery } from '../../router.ts';

/** A run with those beside it. */
export type ShownRun = components['schemas']['RunDetails'];

interface OutputProps {
  readonly run: number;
  readonly isRunning: boolean;
  /** How it ended counts more than how it began. */
  readonly isEndFirst?: boolean;
}

/** Follows the output of a run that is under way. */
export function Output({ run, isRunning, isEndFirst = false }: OutputProps) {
  const { text, version, raw, problem } = useOutput(run, isRunning);
  // The page of its script shows the output, too.
  const isOwnPage = place.value.path === '/runs';
  return (
    <>
      {problem !== null && <Notice tone="warning" title={problem} />}
      <OutputView
        output={text}
        version={version}
        isLive={isRunning}
        isEndFirst={isEndFirst}
        {...{ run, raw, line: isOwnPage ? readNumber(place.value.query.line) : null }}
        onFound={(line) => isOwnPage && setQuery({ line: String(line) })}
      />
    </>
  );
}

/** The differences between the outputs of two runs. */
export function OutputDifference({ run, other }: { readonly run: number; readonly other: number }) {
  const after = useOutput(run, false);
  const before = useOutput(other, false);
  const problem = after.problem ?? before.problem;
  if (problem !== null) return <Notice tone="warning" title={problem} />;
  if (!after.isWhole || !before.isWhole) return <p>Reading both …</p>;
  return <Difference before={before.text} after={after.text} />;
}

/** The line or run that an address names, which somebody may have typed; null: none. */
export function readNumber(text: string | undefined): number | null {
  return /^[1-9]\d{0,8}$/.test(text ?? '') ? Number(text) : null;
}

interface FollowedOutput {
  readonly text: TerminalText;
  /** Rises whenever something was appended. */
  readonly version: number;
  /** The text is complete, and nothing will follow. */
  readonly isWhole: boolean;
  /** As it was written, terminal sequences included. */
  readonly raw: () => string;
  readonly problem: string | null;
}

const EACH_MS = 1000;

/** Reads the output of a run; while the run is under way, once a second. */
function useOutput(run: number, isRunning: boolean): FollowedOutput {
  const [output, setOutput] = useState(() => new Gathered());
  const [, setVersion] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    // The text kept of an ended run may be shorter than what it wrote, so read it anew.
    const gathered = new Gathered();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      const told = await readMore({ run, isRunning }, gathered, abort.signal).catch(() => UNREACHABLE);
      if (abort.signal.aborted) return;
      gathered.isWhole = !isRunning;
      setProblem(told);
      setOutput(gathered);
      setVersion((version) => version + 1);
      if (isRunning) timer = setTimeout(ask, EACH_MS);
    };
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [run, isRunning]);
  const { text, version, isWhole, pieces } = output;
  return { text, version, isWhole, raw: () => pieces.join(''), problem };
}

/** Text read so far. */
class Gathered {
  text = new TerminalText();
  pieces: string[] = [];
  next = 0;
  version = 0;
  isWhole = false;

  /** @param isAnew whether it stands for all that came before, too */
  add(text: string, isAnew: boolean): void {
    if (isAnew && this.pieces.length > 0) {
      this.text = new TerminalText();
      this.pieces = [];
    } else if (text === '') return;
    this.pieces.push(text);
    this.text.append(text);
    this.version += 1;
  }
}

interface FollowedRun {
  readonly run: number;
  readonly isRunning: boolean;
}

/** Null: it was read; else why not. */
async function readMore(of: FollowedRun, gathered: Gathered, signal: AbortSignal): Promise<string | null> {
  // With `from`, the server sends only head and tail of a long output: enough to follow it.
  const params = { path: { id: of.run }, query: of.isRunning ? { from: gathered.next } : {} };
  const { data, error, response } = await client.GET('/api/runs/{id}/output', { params, parseAs: 'text', signal });
  if (!response.ok) return error?.detail ?? 'The output cannot be read.';
  gathered.add(data ?? '', response.headers.get('x-anew') === 'true');
  gathered.next = Number(response.headers.get('x-next') ?? gathered.next);
  return null;
}

interface DifferenceProps {
  readonly before: TerminalText;
  readonly after: TerminalText;
}

/** Line by line what an output has that the one before had not, and the other way round. */
function Difference({ before, after }: DifferenceProps) {
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
    <section class="output-box" tabIndex={0} aria-label="Difference to the other output">
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

/** Limits of a comparison, beyond which the browser would be busy for too long. */
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

/** Keeps a few equal lines before and after each difference. */
function fold({ kind, lines }: Part, isFirst: boolean, isLast: boolean): ShownLine[] {
  const shown = (some: readonly string[]): ShownLine[] => some.map((text) => ({ kind, text }));
  const [head, tail] = [isFirst ? 0 : AROUND, isLast ? 0 : AROUND];
  const left = lines.length - head - tail;
  if (kind !== 'same' || left <= 1) return shown(lines);
  const folded: ShownLine = { kind: 'folded', text: countOf(left, 'line that is the same', 'lines that are the same') };
  return [...shown(lines.slice(0, head)), folded, ...shown(tail === 0 ? [] : lines.slice(-tail))];
}
