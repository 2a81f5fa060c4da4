import { type MetricFamily, type MetricPoint, prometheusNameOf } from '../../monitor/telemetry/families.ts';

/**
 * Metrics as Prometheus reads them: its text format 0.0.4, which node_exporter's textfile collector takes
 * (https://prometheus.io/docs/instrumenting/exposition_formats). Without instants, which that collector refuses.
 */
export function writePrometheus(families: readonly MetricFamily[]): string {
  return families
    .filter(({ points }) => points.length > 0)
    .map((family) => writeFamily(family))
    .join('');
}

function writeFamily(family: MetricFamily): string {
  const name = prometheusNameOf(family);
  const help = family.help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  const lines = family.points.flatMap((point) => writePoint(name, family.kind, point));
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${family.kind}`, ...lines, ''].join('\n');
}

function writePoint(name: string, kind: MetricFamily['kind'], point: MetricPoint): string[] {
  const { labels, value, count = 0, quantiles = [] } = point;
  if (kind !== 'summary') return [writeSample(name, labels, value)];
  return [
    ...quantiles.map(([quantile, at]) => writeSample(name, { ...labels, quantile: String(quantile) }, at)),
    writeSample(`${name}_sum`, labels, value),
    writeSample(`${name}_count`, labels, count),
  ];
}

function writeSample(name: string, labels: Readonly<Record<string, string>>, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`;
}

/** File names hold anything: half characters, which no UTF-8 has, are replaced. */
function escapeLabel(text: string): string {
  return text.toWellFormed().replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
