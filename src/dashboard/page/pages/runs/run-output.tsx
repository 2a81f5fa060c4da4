import { useEffect, useState } from 'preact/hooks';
import { Notice } from '../../components/notice.tsx';
import { Section } from '../../components/page.tsx';
import { client } from '../../data.ts';
import { Difference } from '../../output/difference.tsx';
import { OutputView } from '../../output/output-view.tsx';
import { TerminalText } from '../../output/terminal-text.ts';
import { hrefOf } from '../../router.ts';
import type { OneRun } from './run-table.tsx';

/** What a run has written or writes, and how that differs from the last run that was well. */
export function RunOutput({ run }: { readonly run: OneRun }) {
  const [isCompared, setCompared] = useState(false);
  const isComparable = run.lastGood !== null && run.outcome !== 'running';
  return (
    <Section
      title="Output"
      aside={
        isComparable && (
          <button type="button" aria-expanded={isCompared} onClick={() => setCompared(!isCompared)}>
            {isCompared ? 'Show all of it' : 'Show what differs from the last good run'}
          </button>
        )
      }
    >
      {isCompared && run.lastGood !== null ? (
        <Compared run={run.id} good={run.lastGood} />
      ) : (
        <Output run={run.id} isRunning={run.outcome === 'running'} isEndFirst={run.reason !== null} />
      )}
    </Section>
  );
}

interface OutputProps {
  readonly run: number;
  readonly isRunning: boolean;
  /** How it ended counts more than how it began. */
  readonly isEndFirst?: boolean;
}

/** Of one that runs, as it comes in. */
export function Output({ run, isRunning, isEndFirst = false }: OutputProps) {
  const { text, version, raw, problem } = useOutput(run, isRunning);
  return (
    <>
      {problem !== null && <Notice tone="warning" title={problem} />}
      <OutputView
        output={text}
        version={version}
        isLive={isRunning}
        isEndFirst={isEndFirst}
        label={`Output of run ${run}`}
        download={{ file: `run-${run}.txt`, text: raw }}
      />
    </>
  );
}

function Compared({ run, good }: { readonly run: number; readonly good: number }) {
  const after = useOutput(run, false);
  const before = useOutput(good, false);
  if (!after.isWhole || !before.isWhole) return <p>Reading both …</p>;
  return (
    <>
      <p>
        Compared with <a href={hrefOf('/runs', good)}>run {good}</a>, the last one before it that succeeded.
      </p>
      <Difference before={before.text} after={after.text} />
    </>
  );
}

interface FollowedOutput {
  readonly text: TerminalText;
  /** Rises whenever something was appended. */
  readonly version: number;
  /** What is kept is there, and nothing will follow. */
  readonly isWhole: boolean;
  /** As it was written, terminal sequences included. */
  readonly raw: () => string;
  readonly problem: string | null;
}

const EACH_MS = 1000;

/** What a run has written; of one that still runs, what it writes from now on, each second. */
function useOutput(run: number, isRunning: boolean): FollowedOutput {
  const [output, setOutput] = useState(() => new Gathered());
  const [, setVersion] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    // What is kept of a run that has ended may be less than it had written: it is read anew.
    const gathered = new Gathered();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      const told = await readMore({ run, isRunning }, gathered, abort.signal).catch(
        () => 'The server cannot be reached.',
      );
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

/** What has come so far. */
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
  // From a byte on, only head and tail of long outputs are told: enough to follow one.
  const params = { path: { id: of.run }, query: of.isRunning ? { from: gathered.next } : {} };
  const { data, error, response } = await client.GET('/api/runs/{id}/output', { params, parseAs: 'text', signal });
  if (!response.ok) return error?.detail ?? 'The output cannot be read.';
  gathered.add(data ?? '', response.headers.get('x-anew') === 'true');
  gathered.next = Number(response.headers.get('x-next') ?? gathered.next);
  return null;
}
