import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import type { Site } from '../../discovery/site.ts';
import type { Metrics } from '../../monitor/metrics/read-metrics.ts';
import { UsageError } from '../../system/base/errors.ts';
import { replaceFile } from '../../system/base/plain-file.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';

type Period = Metrics['period'];

interface MetricsOptions extends CommonOptions {
  readonly period?: string;
  readonly since?: string;
  readonly csv?: true;
  readonly prometheus?: true;
  readonly output?: string;
}

const EXAMPLES = `
Examples:
  runner metrics                            the scripts that cost most, in the last 7 days
  runner metrics hourly/clean-tmp           one script, hour by hour, the last day
  runner metrics clean-tmp --period 1d      day by day, the last 30 days
  runner metrics queue --period 1w          all jobs of the queue, week by week
  runner metrics --since 90d --json         for programs; docs/metrics.md explains the figures
  runner metrics --period 1d --csv > metrics.csv
  runner metrics --prometheus --output /var/lib/node_exporter/runner.prom

Hours, days and weeks are in UTC; weeks begin on Monday. A time is a duration back from now (12h, 7d, 26w)
or local (2026-11-01); the whole period that contains it is shown. Metrics are kept for five years, also
after runs are deleted.`;

/** `runner metrics`: what happened by hour, day or week, and what costs most. */
export function metricsCommand(context: CommandContext): Command {
  const command = new Command('metrics');
  return command
    .description('show runs, times and CPU by hour, day or week, and which scripts cost most')
    .argument('[name]', 'only this script, handler or tier, period by period; queue: all jobs of the queue')
    .option('--period <period>', `length of a period: ${Object.keys(defaultSince).join(', ')}`)
    .option(
      '--since <time>',
      'start of the time range (default: 7d; with a name or --period, it depends on the period)',
    )
    .addOption(new Option('--json', 'as JSON').conflicts('csv'))
    .addOption(new Option('--csv', 'as CSV').conflicts('json'))
    .option('--prometheus', 'everything since the log began, in Prometheus’ text format')
    .option('--output <file>', 'with --prometheus: write this file, in one step (for node_exporter: *.prom)')
    .addHelpText('after', EXAMPLES)
    .action((name: string | undefined) => showMetrics(context, name, command.optsWithGlobals<MetricsOptions>()));
}

/** So far back one sees what a period is good for. */
const defaultSince: Readonly<Record<Period, string>> = {
  '1h': '24h',
  '6h': '7d',
  '12h': '14d',
  '1d': '30d',
  '1w': '26w',
};

async function showMetrics(context: CommandContext, word: string | undefined, options: MetricsOptions): Promise<void> {
  if (options.prometheus || options.output !== undefined) return await exportMetrics(context, word, options);
  const period = readPeriod(options.period ?? (word === undefined ? '1d' : '1h'));
  const { parseTimeWindow } = await import('../../report/text/filters.ts');
  const usual = word === undefined && options.period === undefined ? '7d' : defaultSince[period];
  const window = parseTimeWindow({ since: options.since ?? usual }, context.now());
  const text = await withLog(context, options.root, async (log) => {
    const subject = word === undefined ? null : await findSubject(context, log, word);
    const { readMetrics } = await import('../../monitor/metrics/read-metrics.ts');
    const subjects = subject === null ? undefined : [subject];
    const query = { period, ...window, nowMs: context.now(), subjects };
    const metrics = log.store === null ? { ...window, ...nothing, period } : await readMetrics(log.store, query);
    return await render(context, { metrics, subject, options });
  });
  await print(context, text);
}

async function exportMetrics(
  context: CommandContext,
  word: string | undefined,
  { prometheus, output, root, period, since, json, csv }: MetricsOptions,
): Promise<void> {
  if (!prometheus) throw new UsageError('--output needs --prometheus beside it; all else goes to stdout.');
  if ([word, period, since, json, csv].some((each) => each !== undefined)) {
    throw new UsageError('--prometheus writes all metrics: leave out everything else but --output.');
  }
  await showPrometheus(context, { root, output });
}

const nothing = { series: [], workers: [] };

function readPeriod(text: string): Period {
  if (Object.hasOwn(defaultSince, text)) return text as Period;
  const all = Object.keys(defaultSince).join(', ');
  throw new UsageError(`--period must be one of ${all}, found ${JSON.stringify(text)}.`);
}

/** A tier, `queue`, or a script as `report` finds it. */
async function findSubject(context: CommandContext, log: Site, word: string): Promise<string> {
  const { scriptNameOf } = await import('../../discovery/find-script.ts');
  const { findNames, findRecordedScript } = await import('../../report/model/runs/history.ts');
  const known = await log.known();
  const names = await findNames(log);
  const tiers = new Set([...(known ?? []).map(({ tier }) => tier), ...names.map((name) => name.split('/', 1)[0])]);
  return tiers.has(word) || word === 'queue'
    ? word
    : findRecordedScript(scriptNameOf(word, { cwd: context.cwd, root: log.root }), names);
}

interface Shown {
  readonly metrics: Metrics;
  readonly subject: string | null;
  readonly options: MetricsOptions;
}

async function render(context: CommandContext, { metrics, subject, options }: Shown): Promise<string> {
  const { readCpuLimit } = await import('../../system/process/cpu-limit.ts');
  const cpuLimit = readCpuLimit();
  if (options.json) {
    const { formatJson } = await import('../../report/json.ts');
    const { metricsRecord } = await import('../../monitor/metrics/read-metrics.ts');
    return formatJson(metricsRecord.toJson({ ...metrics, cpuLimit }));
  }
  if (options.csv) return await metricsToCsv(metrics);
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderCosts, renderPeriods } = await import('../../report/terminal/metrics.ts');
  const screen = createScreen(context);
  return subject === null ? renderCosts(metrics, cpuLimit, screen) : renderPeriods(metrics, subject, screen);
}

/** One line for each subject and period. Instants are ISO strings, unknown is empty. */
async function metricsToCsv({ series }: Metrics): Promise<string> {
  const { formatCsv } = await import('../show/report.ts');
  return await formatCsv(titles, (instant) =>
    series.flatMap(({ subject, buckets }) =>
      buckets.map(({ fromMs, runMs, serviceMs, lateMs, ...counts }) => ({
        ...{ subject, from: instant(fromMs), ...counts, runMs: runMs.sum, meanRunMs: runMs.mean },
        ...{ minRunMs: runMs.min, maxRunMs: runMs.max, p50RunMs: runMs.p50, p95RunMs: runMs.p95, p99RunMs: runMs.p99 },
        ...{ meanServiceMs: serviceMs.mean, minServiceMs: serviceMs.min, maxServiceMs: serviceMs.max },
        ...{ p95ServiceMs: serviceMs.p95, meanLateMs: lateMs.mean, maxLateMs: lateMs.max },
      })),
    ),
  );
}

const titles =
  'subject from added started ended finished errors failed crashed warned runMs meanRunMs minRunMs maxRunMs p50RunMs ' +
  'p95RunMs p99RunMs meanServiceMs minServiceMs maxServiceMs p95ServiceMs cpuMs cpuRuns maxRssBytes meanLateMs ' +
  'maxLateMs waiting waitingMs';

interface PrometheusOptions {
  readonly root?: string | undefined;
  /** Into this file instead of stdout. */
  readonly output?: string | undefined;
}

/** `runner metrics --prometheus`: all metrics in Prometheus' text format, printed or put into a file. */
export async function showPrometheus(context: CommandContext, { root, output }: PrometheusOptions): Promise<void> {
  const text = await withLog(context, root, async ({ store }) => {
    if (store === null) return '';
    const { writePrometheus } = await import('../../monitor/metrics/prometheus.ts');
    return await writePrometheus(store, context.now(), context.version);
  });
  if (output === undefined) await print(context, text);
  else writeExport(resolve(context.cwd, output), text);
}

/** The collector of node_exporter is another user, and reads only files that end in `.prom`. */
function writeExport(path: string, text: string): void {
  try {
    replaceFile(path, text, 0o644);
  } catch (error) {
    throw new UsageError(`--output ${path} could not be written (${(error as Error).message}); name another file`);
  }
}
