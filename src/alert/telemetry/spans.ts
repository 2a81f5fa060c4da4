import { createHash } from 'node:crypto';
import type { EndedRunFacts } from '../../store/contract.ts';
import { isFailure } from '../../store/schema.ts';
import { type Attribute, attributesOf, type Sender, scope, toNanoseconds } from './otlp.ts';

const SPAN_KIND_INTERNAL = 1;
const SPAN_KIND_CONSUMER = 5;
const STATUS_UNSET = 0;
const STATUS_ERROR = 2;

/** An `ExportTraceServiceRequest`: one span for each run. */
export function spansBody(runs: readonly EndedRunFacts[], sender: Sender): string {
  const byHost = Map.groupBy(runs, ({ host }) => host);
  const resourceSpans = [...byHost].map(([host, ofHost]) => ({
    resource: { attributes: attributesOf({ ...sender.resource, 'host.name': host }) },
    scopeSpans: [{ scope: scope(sender), spans: ofHost.map((run) => spanOf(run, sender)) }],
  }));
  return JSON.stringify({ resourceSpans });
}

/** A run that is sent once more is the same span: its numbers follow from what the run is. */
function spanOf(run: EndedRunFacts, sender: Sender) {
  const digest = createHash('sha256')
    .update(JSON.stringify([sender.root, run.host, run.id, run.startedAt]))
    .digest('hex');
  const end = endOf(run);
  return {
    traceId: digest.slice(0, 32),
    spanId: digest.slice(32, 48),
    name: run.script,
    kind: isOfQueue(run) ? SPAN_KIND_CONSUMER : SPAN_KIND_INTERNAL,
    startTimeUnixNano: toNanoseconds(run.startedAt),
    endTimeUnixNano: toNanoseconds(end),
    attributes: describeRun(run),
    events: describeError(run, end),
    status: isFailure(run.outcome)
      ? { code: STATUS_ERROR, message: run.reason ?? run.outcome }
      : { code: STATUS_UNSET },
  };
}

/** By the monotonic clock, where it is known: the other one may have been set meanwhile. */
function endOf({ startedAt, finishedAt, durationMs }: EndedRunFacts): number {
  return durationMs === null ? Math.max(startedAt, finishedAt ?? startedAt) : startedAt + durationMs;
}

function isOfQueue({ script }: EndedRunFacts): boolean {
  return script.startsWith('queue/');
}

function describeRun(run: EndedRunFacts): Attribute[] {
  return attributesOf({
    'runner.run.id': run.id,
    'runner.script': run.script,
    'runner.tier': run.script.slice(0, run.script.indexOf('/')),
    'runner.outcome': run.outcome,
    'runner.attempt': run.attempt,
    'runner.trigger': run.trigger,
    'runner.job.id': isOfQueue(run) ? run.jobId : null,
    'runner.lateness': run.scheduledFor === null ? null : Math.max(0, run.startedAt - run.scheduledFor) / 1000,
    'runner.reason': run.reason,
    'runner.signal': run.signal,
    'runner.cpu.user': seconds(run.userCpuMs),
    'runner.cpu.system': seconds(run.systemCpuMs),
    'runner.memory.peak': run.maxRssBytes,
    'runner.measured_by': run.measuredBy,
    'process.pid': run.pid,
    'process.exit.code': run.exitCode,
  });
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

/** As OpenTelemetry records what was thrown. */
function describeError({ errorName, errorMessage, errorStack }: EndedRunFacts, end: number) {
  if (errorName === null && errorMessage === null) return [];
  const attributes = attributesOf({
    'exception.type': errorName,
    'exception.message': errorMessage,
    'exception.stacktrace': errorStack,
  });
  return [{ name: 'exception', timeUnixNano: toNanoseconds(end), attributes }];
}
