import { useState } from 'preact/hooks';
import { Notice } from '../../components/notice.tsx';
import { Section } from '../../components/page.tsx';
import { Difference } from '../../output/difference.tsx';
import { useOutput } from '../../output/follow.ts';
import { OutputView } from '../../output/output-view.tsx';
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
