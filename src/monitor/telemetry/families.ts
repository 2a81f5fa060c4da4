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

const suffixes: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes' };

/** `runner_run_duration_seconds`, as https://prometheus.io/docs/practices/naming asks for it. */
export function prometheusNameOf({ name, unit, kind }: Pick<MetricFamily, 'name' | 'unit' | 'kind'>): string {
  return `${name.replaceAll('.', '_')}${suffixes[unit] ?? ''}${kind === 'counter' ? '_total' : ''}`;
}
