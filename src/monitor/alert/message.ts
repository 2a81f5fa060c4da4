import prettyMilliseconds from 'pretty-ms';
import type { IncidentRow } from '../../store/schema.ts';
import { type IncidentRun, incidentsOf } from '../../store/statements/monitor/incidents.ts';
import { usualOf } from '../../store/statements/monitor/usual.ts';
import type { StoreSession } from '../../store/store.ts';
import { FAILING, type IncidentEnding, isOfRuns, type Outcome, type Severity } from '../../store/words.ts';
import { commandIn, isInstant, shellWord, toMillis } from '../../system/base/values.ts';

/** What is told of one incident. Unknown values are null. */
export interface IncidentDetail {
  readonly id: number;
  readonly subject: string;
  readonly severity: Severity;
  readonly code: string;
  /** UTC epoch milliseconds. */
  readonly openedAt: number;
  /** Null: it is not over. */
  readonly recoveredAt: number | null;
  /** How it ended otherwise than by getting well. */
  readonly ending: IncidentEnding | null;
  /** How to fix it; or why its script, handler or tier is gone. */
  readonly hint: string | null;
  readonly occurrences: number;
  readonly lastRun: LastRun | null;
  /** One sentence: why the last run failed, or what a check says. */
  readonly error: string | null;
  /** The last lines that the run has printed, masked. */
  readonly output: string | null;
  /** What usually happens: "succeeds in 41 s, 27 of the last 30 times". */
  readonly usual: string | null;
  /** What has changed since it last succeeded. */
  readonly changed: string | null;
  /** By which to look closer, or what cures it. */
  readonly command: string;
}

interface LastRun {
  readonly id: number;
  /** The job of the queue that it was for; null: it was a script's. */
  readonly jobId: number | null;
  readonly outcome: Outcome;
  readonly startedAt: number;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
}

/** `digest`: several incidents, of which some have opened, and others are over. */
export type AlertEvent = 'opened' | 'reminder' | 'recovered' | 'digest';

/** The body of a webhook; all other channels put it into words. */
export interface AlertMessage {
  readonly version: 1;
  readonly event: AlertEvent;
  readonly incidents: readonly IncidentDetail[];
  readonly host: string;
  readonly root: string;
}

/** A message that has waited in the log, which others may write to; null: no runner has written this. */
export function readQueuedAlert(body: string): AlertMessage | null {
  const message = parseMessage(body);
  const isAlert = message?.version === 1 && Array.isArray(message.incidents) && message.incidents.every(isDetail);
  return isAlert ? (message as AlertMessage) : null;
}

function parseMessage(text: string): Partial<AlertMessage> | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const kindsOfDetail: readonly (readonly [kind: string, names: readonly (keyof IncidentDetail)[]])[] = [
  ['number', ['id', 'openedAt', 'occurrences']],
  ['string', ['subject', 'severity', 'code', 'command']],
  ['number or null', ['recoveredAt']],
  ['string or null', ['ending', 'hint', 'error', 'output', 'usual', 'changed']],
  ['object or null', ['lastRun']],
];

function isDetail(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const detail = value as Readonly<Record<string, unknown>>;
  return kindsOfDetail.every(([kind, names]) =>
    names.every((name) =>
      (detail[name] ?? null) === null ? kind.endsWith('null') : kind.startsWith(typeof detail[name]),
    ),
  );
}

/** What is known of an incident: for a message, a page or a terminal. */
export async function describeIncident(
  session: StoreSession,
  incident: IncidentRow,
  root: string,
): Promise<IncidentDetail> {
  const { id, subject, severity, code, occurrences, message, ending, hint } = incident;
  const run = await incidentsOf(session.statements).lastRun(incident);
  return {
    ...{ id, subject, severity, code, occurrences },
    ...{ openedAt: incident.opened_at, recoveredAt: incident.recovered_at, ending, hint },
    lastRun: run === null ? null : toLastRun(run),
    error: message,
    output: lastLines(run?.output ?? null),
    usual: code === FAILING ? await readUsual(session, subject) : null,
    changed: run === null ? null : await readChange(session, run.id),
    command: commandOf(incident, run, root),
  };
}

function toLastRun({ id, queueJobId: jobId, startedAt, durationMs, outcome, exitCode, signal }: IncidentRun) {
  return { id, jobId, startedAt, durationMs, outcome, exitCode, signal };
}

const LAST_LINES = 20;

function lastLines(output: string | null): string | null {
  const text = output?.trimEnd() ?? '';
  return text === '' ? null : text.split('\n').slice(-LAST_LINES).join('\n');
}

/** As many runs as tell how a script usually fares. */
const USUAL_RUNS = 30;

/** "succeeds in 41s, 27 of the last 30 times"; null: it has no other runs, or none of them succeeded. */
async function readUsual({ statements }: StoreSession, subject: string): Promise<string | null> {
  const outcomes = await incidentsOf(statements).outcomes(subject, USUAL_RUNS);
  const succeeded = outcomes.filter(({ outcome }) => outcome === 'succeeded');
  const durations = succeeded
    .flatMap(({ duration_us }) => toMillis(duration_us) ?? [])
    .toSorted((one, other) => one - other);
  const middle = durations[Math.floor(durations.length / 2)];
  if (succeeded.length === 0) return null;
  const took = middle === undefined ? '' : ` in ${prettyMilliseconds(Math.round(middle), { unitCount: 2 })}`;
  return `succeeds${took}, ${succeeded.length} of the last ${outcomes.length} times`;
}

/** Two times: when it was still well, and when what it is now first ran. */
async function readChange({ statements }: StoreSession, runId: number): Promise<string | null> {
  const change = await usualOf(statements).change({ runId });
  if (change === null) return null;
  const [succeeded, changed] = [change.lastSuccessAt, change.changedAt].map(inUtc);
  return `its content has changed: it last succeeded ${succeeded}, and the new content first ran ${changed}`;
}

/** `2026-03-10 13:05 UTC`: it is read on other machines. */
function inUtc(atMs: number): string {
  return isInstant(atMs) ? `${new Date(atMs).toISOString().slice(0, 16).replace('T', ' ')} UTC` : 'at an unknown time';
}

/** Who reads it is in another folder, or on another machine. */
function commandOf(incident: IncidentRow, run: IncidentRun | null, root: string): string {
  const { subject, code, hint, ending } = incident;
  if (run !== null) return commandIn(root, `show ${run.id}`);
  if (ending !== null) return commandIn(root, 'incidents --all');
  if (isOfRuns(code)) return commandIn(root, `why ${shellWord(subject.replace(/^queue\//, ''))}`);
  return hint ?? commandIn(root, 'check');
}
