import { resolve } from 'node:path';
import { writePrometheus } from '../../monitor/metrics/prometheus.ts';
import { type Metrics, metricsRecord, readMetrics } from '../../monitor/metrics/read-metrics.ts';
import { formatJson } from '../../report/json.ts';
import { findSubject } from '../../report/names.ts';
import { renderCosts, renderPeriods } from '../../report/terminal/metrics.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { formatCsv } from '../../report/text/csv.ts';
import { parseTimeWindow } from '../../report/text/filters.ts';
import { UsageError } from '../../system/base/errors.ts';
import { replaceFile } from '../../system/base/plain-file.ts';
import { readCpuLimit } from '../../system/process/memory.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';
import type { Given } from '../table.ts';

type Period = Metrics['period'];

/** So far back one sees what a period is good for. */
const defaultSince: Readonly<Record<Period, string>> = {
  '1h': '24h',
  '6h': '7d',
  '12h': '14d',
  '1d': '30d',
  '1w': '26w',
};

type Options = Given<'metrics'>;

/** `runner metrics`: what happened by hour, day or week, and what costs most. */
export async function showMetrics(context: CommandContext, options: Options): Promise<void> {
  const { name: word } = options;
  if (options.prometheus || options.output !== undefined) return await exportMetrics(context, options);
  const period = readPeriod(options.period ?? (word === undefined ? '1d' : '1h'));
  const usual = word === undefined && options.period === undefined ? '7d' : defaultSince[period];
  const window = parseTimeWindow({ since: options.since ?? usual }, context.now());
  const text = await withLog(context, options.root, async (log) => {
    const subject = word === undefined ? null : await findSubject(log, word, context);
    const subjects = subject === null ? undefined : [subject];
    const query = { period, ...window, nowMs: context.now(), subjects };
    const metrics = log.store === null ? { ...window, ...nothing, period } : await readMetrics(log.store, query);
    return render(context, { metrics, subject, options });
  });
  await print(context, text);
}

async function exportMetrics(
  context: CommandContext,
  { name, prometheus, output, root, period, since, json, csv }: Options,
): Promise<void> {
  if (!prometheus) throw new UsageError('--output needs --prometheus beside it; all else goes to stdout.');
  if ([name, period, since, json, csv].some((each) => each !== undefined)) {
    throw new UsageError('--prometheus writes all metrics: leave out everything else but --output.');
  }
  await showPrometheus(context, { ...(root !== undefined && { root }), ...(output !== undefined && { output }) });
}

const nothing = { series: [], workers: [] };

function readPeriod(text: string): Period {
  if (Object.hasOwn(defaultSince, text)) return text as Period;
  const all = Object.keys(defaultSince).join(', ');
  throw new UsageError(`--period must be one of ${all}, found ${JSON.stringify(text)}.`);
}

interface Shown {
  readonly metrics: Metrics;
  readonly subject: string | null;
  readonly options: Options;
}

async function render(context: CommandContext, { metrics, subject, options }: Shown): Promise<string> {
  const cpuLimit = readCpuLimit();
  if (options.json) return formatJson(metricsRecord.toJson({ ...metrics, cpuLimit }));
  if (options.csv) return await metricsToCsv(metrics);
  const screen = createScreen(context);
  return subject === null ? renderCosts(metrics, cpuLimit, screen) : renderPeriods(metrics, subject, screen);
}

/** One line for each subject and period. Instants are ISO strings, unknown is empty. */
async function metricsToCsv({ series }: Metrics): Promise<string> {
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

/** `runner metrics --prometheus`: all metrics in Prometheus' text format, printed or put into a file. */
export async function showPrometheus(context: CommandContext, { root, output }: Options): Promise<void> {
  const text = await withLog(context, root, async ({ store }) => {
    if (store === null) return '';
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
