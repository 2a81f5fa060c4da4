/**
 * One metric with all its series, as Prometheus and OpenTelemetry both have them. Its name is OpenTelemetry's, with
 * dots; Prometheus' follows from it, its unit and its kind.
 */
export interface MetricFamily {
  /** `runner.run.duration` */
  readonly name: string;
  /** `counter`: it only grows. `summary`: a count and a sum that only grow, and quantiles of the last day. */
  readonly kind: 'counter' | 'gauge' | 'summary';
  /** In UCUM: `s`, `By`, or `{run}` of what is counted; '' of what has none. */
  readonly unit: string;
  readonly help: string;
  readonly points: readonly MetricPoint[];
}

export interface MetricPoint {
  readonly labels: Readonly<Record<string, string>>;
  /** Of a summary, its sum. */
  readonly value: number;
  /** Of a summary. */
  readonly count?: number;
  /** Of a summary: pairs of a share and the value that this share does not exceed. */
  readonly quantiles?: readonly (readonly [share: number, value: number])[];
}

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

const suffixes: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes' };

/** `runner_run_duration_seconds`, as https://prometheus.io/docs/practices/naming asks for it. */
function prometheusNameOf({ name, unit, kind }: Pick<MetricFamily, 'name' | 'unit' | 'kind'>): string {
  return `${name.replaceAll('.', '_')}${suffixes[unit] ?? ''}${kind === 'counter' ? '_total' : ''}`;
}
