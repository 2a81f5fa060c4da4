import { useState } from 'preact/hooks';
import { formatMeasured, formatRatio } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Answered, Section } from '../../components/page.tsx';
import { State } from '../../components/state.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { Name, RunLink } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { isStatic, useQuery } from '../../data.ts';
import { setQuery } from '../../router.ts';
import { OutputDifference, type ShownRun } from './run-output.tsx';

type RunComparison = components['schemas']['RunComparison'];
type Figure = RunComparison['figures'][number];

/** Asks for the run to compare with; by default the last one before it that succeeded. */
export function ComparedChoice({ run: { lastGood, previous } }: { readonly run: ShownRun }) {
  const [other, setOther] = useState(String(lastGood ?? previous ?? ''));
  return (
    <form
      class="states"
      onSubmit={(event) => {
        event.preventDefault();
        setQuery({ with: other, line: null });
      }}
    >
      <label for="compared">Compare with run</label>
      <input
        id="compared"
        class="run-number"
        inputMode="numeric"
        pattern="[1-9][0-9]{0,8}"
        title="The number of a run"
        required
        value={other}
        onInput={({ currentTarget }) => setOther(currentTarget.value)}
      />
      <button type="submit">Show what differs</button>
    </form>
  );
}

interface ComparisonProps {
  readonly run: ShownRun;
  readonly other: number;
}

/** Two runs side by side: figures, file and output. */
export function Comparison({ run, other }: ComparisonProps) {
  return (
    <Section
      title={`Beside run ${other}`}
      aside={
        <button type="button" onClick={() => setQuery({ with: null })}>
          Show all of its output
        </button>
      }
    >
      {/* A report has the figures of each run, on its page. */}
      {!isStatic && <Figures run={run.id} other={other} />}
      <OutputDifference run={run.id} other={other} />
    </Section>
  );
}

function Figures({ run, other }: { readonly run: number; readonly other: number }) {
  const asked = useQuery('/api/runs/{id}', { params: { path: { id: run }, query: { with: other } } });
  return (
    <Answered asked={asked}>
      {({ comparison }) => comparison !== null && <Told run={run} comparison={comparison} />}
    </Answered>
  );
}

function Told({ run, comparison }: { readonly run: number; readonly comparison: RunComparison }) {
  const { with: other, script, outcome, startedAt, isContentSame, figures } = comparison;
  const columns: readonly TableColumn<Figure>[] = [
    {
      title: 'Figure',
      cell: ({ measure, name }) => (name === '' ? names[measure] : <Name text={name} />),
      onPhone: 'title',
    },
    { title: `Run ${run}`, cell: ({ measure, value }) => formatMeasured(measure, value), isNumber: true },
    { title: `Run ${other}`, cell: ({ measure, other: value }) => formatMeasured(measure, value), isNumber: true },
    { title: 'Ratio', cell: ({ value, other: base }) => formatRatio(value, base), isNumber: true },
  ];
  return (
    <>
      <p class="bar">
        <span>
          <RunLink id={other} /> of <Name text={script} />, <Time at={startedAt} />
        </span>
        <State state={outcome} />
        {isContentSame !== null && <span>{isContentSame ? 'Both ran the same file.' : 'Their files differ.'}</span>}
      </p>
      <Table
        caption={`Figures of runs ${run} and ${other}`}
        columns={columns}
        rows={figures}
        keyOf={({ measure, name }) => `${measure} ${name}`}
      />
    </>
  );
}

const names: Readonly<Record<Figure['measure'], string>> = {
  duration: 'Duration',
  cpu: 'CPU time',
  memory: 'Memory at its peak',
  output: 'Output',
  count: 'Count',
};
