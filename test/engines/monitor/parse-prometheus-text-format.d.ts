declare module 'parse-prometheus-text-format' {
  interface Family {
    readonly name: string;
    readonly help: string;
    readonly type: 'COUNTER' | 'GAUGE' | 'SUMMARY' | 'UNTYPED';
    readonly metrics: readonly { readonly value?: string; readonly labels?: Readonly<Record<string, string>> }[];
  }

  /** Reads Prometheus' text format 0.0.4. */
  // biome-ignore lint/style/noDefaultExport: it has no other
  export default function parsePrometheusTextFormat(text: string): Family[];
}
