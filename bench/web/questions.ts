/** Rows that some pages show one of. */
export interface Shown {
  readonly script: string;
  readonly run: number;
  readonly job: number;
}

/** Questions of the pages to the API, as a viewer opens them; each page asks all of its own again after each change. */
export function questionsOf({ script, run, job }: Shown): Readonly<Record<string, readonly string[]>> {
  const of = encodeURIComponent(script);
  const metrics = ['6h?since=7d', '1h?since=24h', '1d?since=90d', '1w?since=365d'];
  return {
    'each page': ['status'],
    overview: ['overview', 'failures'],
    scripts: ['scripts'],
    script: [
      ...[`scripts/${script}?why=true`, `runs?script=${of}&limit=25`],
      ...[`runs?script=${of}&since=30d&limit=500`],
    ],
    runs: ['runs?limit=100', 'runs?outcome=failed%2Ctimed-out%2Ckilled%2Ccrashed%2Cnot-started&limit=100'],
    run: [`runs/${run}`, `runs/${run}/output?from=0`],
    'run, compared': [`runs/${run}?with=${run - 1}`],
    queue: ['queue', 'jobs?limit=50&count=true'],
    'queue, chosen': ['jobs?state=failed&limit=50&count=true', 'jobs?name=mail%2F*&limit=50&count=true'],
    job: [`jobs/${job}`],
    incidents: ['incidents?state=open&limit=100', 'incidents?state=over&limit=20', 'mutes'],
    next: ['next?for=24h&limit=1000'],
    'next, a week': ['next?for=7d&limit=1000'],
    workers: ['workers?limit=50'],
    activity: ['activity?limit=100', 'activity?event=job-failed&limit=100'],
    ...Object.fromEntries(metrics.map((span) => [`metrics ${span}`, [`metrics/${span}&buckets=*`]])),
    settings: ['settings'],
    search: ['search?q=user-599', 'runs?search=SMTP&limit=100', 'jobs?search=user-599%40&limit=50'],
    programs: [
      ...[`why/${script}`, `activity?job=${job}&limit=500`, 'health', 'pauses', 'tiers', 'tiers/15min'],
      ...['jobs/counts', 'jobs/totals', 'jobs/pace', '../metrics', 'metrics/1h?since=7d', YEAR_OF_HOURS],
    ],
  };
}

/** Asked by programs alone: no page shows so many periods. */
export const YEAR_OF_HOURS = 'metrics/1h?since=365d&subject=*';
