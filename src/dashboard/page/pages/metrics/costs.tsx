import { formatBytes, formatCount, formatDuration } from '../../../../report/text/format.ts';
import type { components } from '../../../client/paths.ts';
import { Section } from '../../components/page.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { hrefOf } from '../../router.ts';

type Metrics = components['schemas']['Metrics'];
type Series = Metrics['series'][number];

/** Which scripts need most of the machine. */
export function Costs({ metrics }: { readonly metrics: Metrics }) {
  const scripts = metrics.series.filter(({ kind }) => kind === 'script');
  const allMs = metrics.series.find(({ subject }) => subject === '*')?.total.cpuMs ?? null;
  if (scripts.length === 0) return null;
  return (
    <Section title="What costs most">
      <Table
        caption="Scripts and handlers with what they cost"
        columns={columnsOf(allMs)}
        rows={scripts}
        keyOf={({ subject }) => subject}
        sorting={{ title: 'CPU time', isDescending: true }}
      />
    </Section>
  );
}

function columnsOf(allMs: number | null): readonly TableColumn<Series>[] {
  const shareOf = ({ total: { cpuMs } }: Series): number | null => (cpuMs === null || !allMs ? null : cpuMs / allMs);
  return [
    {
      title: 'Script',
      cell: ({ subject }) => (
        <a href={hrefOf('/scripts', subject)}>
          <bdi>{subject}</bdi>
        </a>
      ),
      sortBy: ({ subject }) => subject,
      onPhone: 'title',
    },
    number('CPU time', ({ total }) => total.cpuMs, formatDuration),
    number('Share', shareOf, (share) => (share === null ? '–' : `${Math.round(share * 100)} %`)),
    number(
      'Runs',
      ({ total }) => total.ended,
      (count) => formatCount(count ?? 0),
    ),
    number(
      'Failed',
      ({ total }) => total.failed,
      (count) => formatCount(count ?? 0),
    ),
    number('Median', ({ total }) => total.runMs.p50, formatDuration),
    number('p95', ({ total }) => total.runMs.p95, formatDuration),
    number('Memory', ({ total }) => total.maxRssBytes, formatBytes),
  ];
}

function number(title: string, read: (series: Series) => number | null, format: (value: number | null) => string) {
  return { title, cell: (series: Series) => format(read(series)), sortBy: read, isNumber: true };
}
