import type { LogView, Site } from '../../discovery/site.ts';
import type { CheckCode } from '../../monitor/finding.ts';
import { columnsOf } from '../../store/columns.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import { tables } from '../../store/tables.ts';
import { FAILING, incidentEndings, isOfRuns } from '../../store/words.ts';
import { field, LEFT_OUT, record, shown, type Values } from '../../system/base/record.ts';

/** How bad a trouble is, in the words of all who show it, the worst first. */
export const grades = ['critical', 'failing', 'warning', 'acknowledged'] as const;

export const gradeField = shown.words(grades, 'Grade');

/** A script or job has failed, or runs could not be recorded; other warnings are only signs of trouble. */
const failures: ReadonlySet<string> = new Set([
  FAILING,
  ...(['jobs-failing', 'log-unusable'] satisfies readonly CheckCode[]),
]);

export function gradeOf(code: string, severity: 'warning' | 'critical'): (typeof grades)[number] {
  if (severity === 'critical' && code !== FAILING) return 'critical';
  return failures.has(code) ? 'failing' : 'warning';
}

/** Checks that quote what failed runs have said, or name jobs with their parameters. */
const quoting: ReadonlySet<string> = new Set([
  ...(['jobs-failing', 'jobs-waiting', 'jobs-late', 'script-overdue'] satisfies readonly CheckCode[]),
]);

/** A sentence of the runner, unless it is of runs that failed: then it quotes them. */
export const findingText = field.text
  .like('exit code 3')
  .inPublicAs((message, { code }) =>
    typeof code !== 'string' || isOfRuns(code) || quoting.has(code) ? LEFT_OUT : message,
  );

/** A fault that was found, with its history. */
export const incidentRecord = record('Incident', {
  id: shown.integer,
  subject: shown.text.like('hourly/clean-tmp').about('A script or handler, a tier, `queue`, `log`, `disk`, `alerts`'),
  code: shown.text.like('script-failing'),
  severity: shown.words(['warning', 'critical']),
  grade: gradeField,
  occurrences: shown.integer,
  error: findingText.orNull.from('message'),
  hint: shown.text.like('`npx folder-runner why hourly/clean-tmp` tells more').orNull,
  openedAt: shown.instant.from('opened_at'),
  lastAt: shown.instant.from('last_at'),
  recoveredAt: shown.instant.orNull.from('recovered_at').about('Null: it is not over'),
  ending: shown
    .words(incidentEndings)
    .orNull.about('How it ended otherwise than by getting well; `gone`: `hint` says why'),
  toldAt: shown.instant.orNull.from('told_at'),
  remindedAt: shown.instant.orNull.from('reminded_at'),
  recoveryToldAt: shown.instant.orNull.from('recovery_told_at'),
  acknowledgedAt: shown.instant.orNull.from('acknowledged_at'),
  lastRun: shown.integer.orNull.from('last_run_id'),
});

export interface Incident extends IncidentRow, Pick<Values<typeof incidentRecord>, 'grade'> {}

/** More than people read; each costs a statement. */
const MOST_ERRORS = 100;

/** Incidents of failing scripts with the error of the last run, which says more than the exit code that they note. */
export async function withErrors<Each extends IncidentRow>(log: LogView, incidents: readonly Each[]): Promise<Each[]> {
  const ids = incidents.flatMap(({ code, last_run_id }) => (code === FAILING ? (last_run_id ?? []) : []));
  if (ids.length === 0) return [...incidents];
  const { readRunSummaries } = await import('./runs/run-pages.ts');
  const errors = await readRunSummaries(log, ids.slice(0, MOST_ERRORS));
  return incidents.map((incident) => {
    // The number of a run that is gone may be another script's by now.
    const error = errors.get(`${incident.last_run_id} ${incident.subject}`);
    return { ...incident, message: error ?? incident.message };
  });
}

export function graded(incident: IncidentRow): Incident {
  const { code, severity, acknowledged_at } = incident;
  return { ...incident, grade: acknowledged_at === null ? gradeOf(code, severity) : 'acknowledged' };
}

export function incidentToJson(incident: IncidentRow) {
  return incidentRecord.toJson(graded(incident));
}

export interface IncidentQuery {
  readonly state: 'open' | 'over' | 'all';
  /** Only those of this script, handler, tier … */
  readonly subject?: string | undefined;
  /** Only those with lower numbers. */
  readonly beforeId?: number | undefined;
  readonly limit: number;
}

type IncidentFilter = Pick<IncidentQuery, 'state' | 'subject'>;

export async function countIncidents({ db }: LogView, { state, subject }: IncidentFilter): Promise<number> {
  const row = await db
    .selectFrom('incidents')
    .select(({ fn }) => fn.countAll<number>().as('incidents'))
    .$if(state !== 'all', (incidents) => incidents.where('recovered_at', state === 'open' ? 'is' : 'is not', null))
    .$if(subject !== undefined, (incidents) => incidents.where('subject', '=', subject as string))
    .executeTakeFirst();
  return Number(row?.incidents ?? 0);
}

/** All: where a server has columns of its own for its indexes, those are nobody's business. */
const columns = columnsOf(tables.incidents);

/** Incidents that are not over, the oldest first. */
export async function selectOpenIncidents({ db }: LogView): Promise<IncidentRow[]> {
  return await db.selectFrom('incidents').select(columns).where('recovered_at', 'is', null).orderBy('id').execute();
}

/** The same of one script, handler or tier. */
export async function readOpenIncidents({ store, view }: Pick<Site, 'store' | 'view'>, subject: string) {
  const open = store === null ? [] : await incidentsOf(store.statements).current([subject]);
  return (await withErrors(await view(), open)).map(graded);
}

/** Incidents, the newest first. */
export async function selectIncidents({ db }: LogView, query: IncidentQuery): Promise<IncidentRow[]> {
  const { state, subject, beforeId, limit } = query;
  return await db
    .selectFrom('incidents')
    .select(columns)
    .$if(state !== 'all', (incidents) => incidents.where('recovered_at', state === 'open' ? 'is' : 'is not', null))
    .$if(subject !== undefined, (incidents) => incidents.where('subject', '=', subject as string))
    .$if(beforeId !== undefined, (incidents) => incidents.where('id', '<', beforeId as number))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}
