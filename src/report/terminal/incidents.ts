import type { IncidentRow } from '../../store/schema.ts';
import type { Mute } from '../../store/statements/monitor/incidents.ts';
import { describeEnding, FAILING, isOfRuns } from '../../store/words.ts';
import { countOf } from '../../system/base/format.ts';
import { firstLine, printableLine } from '../../system/base/text.ts';
import type { Screen } from './screen.ts';
import { joinBlocks, joinFitting, truncateMiddle, wrap } from './table.ts';

/** Incidents with their numbers, the mutes in force below. */
export function renderIncidents(incidents: readonly IncidentRow[], mutes: readonly Mute[], screen: Screen): string {
  return joinBlocks([
    incidents.length === 0 ? ['Nothing is wrong, as far as runs and checks tell.'] : [],
    ...incidents.map((incident) => renderIncident(incident, screen)),
    mutes.map((mute) => describeMute(mute, screen)),
  ]);
}

/** At the top of `runner status`: nothing where nothing is wrong. */
export function renderOpenIncidents(incidents: readonly IncidentRow[], screen: Screen): string[] {
  if (incidents.length === 0) return [];
  const lines = incidents.slice(0, MOST_SHOWN).flatMap((incident) => renderIncident(incident, screen));
  const rest = incidents.length - MOST_SHOWN;
  return [
    screen.palette.bold('incidents'),
    ...lines,
    ...(rest > 0 ? [`  ${rest} more: npx folder-runner incidents`] : []),
  ];
}

const MOST_SHOWN = 10;

function renderIncident(incident: IncidentRow, screen: Screen): string[] {
  const { palette, columns } = screen;
  const room = columns - 4;
  const [first = '', ...more] = joinFitting(describeIncident(incident, screen), room);
  const paint = incident.recovered_at !== null ? palette.dim : paintOf(incident, screen);
  const error = firstLine(incident.message ?? '');
  const ending = describeEnding(incident);
  const cure = ending === null && incident.hint !== null ? wrap(firstLine(incident.hint), room - 2) : [];
  return [
    `  ${paint(first)}`,
    ...more.map((line) => `    ${line}`),
    ...(error === '' ? [] : wrap(error, room).map((line) => `    ${line}`)),
    ...(ending === null ? [] : wrap(firstLine(ending), room).map((line) => `    ${line}`)),
    ...cure.map((line, index) => `    ${index === 0 ? '→' : ' '} ${line}`),
  ];
}

function paintOf({ severity, acknowledged_at }: IncidentRow, { palette }: Screen) {
  if (acknowledged_at !== null) return palette.dim;
  return severity === 'critical' ? palette.bad : palette.warning;
}

function describeIncident(incident: IncidentRow, { clock, columns }: Screen): string[] {
  const { id, subject, code, severity, occurrences, last_run_id } = incident;
  const isFailing = code === FAILING;
  const isRepeated = isOfRuns(code) && occurrences > 1;
  const times = isFailing
    ? countOf(occurrences, 'failure')
    : isOfRuns(code)
      ? countOf(occurrences, 'warning')
      : printableLine(code);
  return [
    `#${id} ${truncateMiddle(printableLine(subject), columns - `#${id} `.length - 4)}`,
    ...(severity === 'critical' ? ['critical'] : []),
    `${times} since ${clock.short(incident.opened_at)}`,
    ...(isRepeated ? [`last ${clock.short(incident.last_at)}`] : []),
    ...(incident.acknowledged_at === null ? [] : ['acknowledged']),
    ...(incident.recovered_at === null ? [] : [`${wordOfEnd(incident)} ${clock.short(incident.recovered_at)}`]),
    ...(last_run_id === null ? [] : [`run ${last_run_id}`]),
  ];
}

function wordOfEnd({ ending }: IncidentRow): string {
  if (ending === null) return 'over since';
  return ending === 'gone' ? 'gone since' : 'closed';
}

function describeMute({ name, until }: Mute, { clock }: Screen): string {
  const end = until === null ? '' : ` until ${clock.dateTime(until)} (${clock.zone})`;
  return `Muted${end}: ${printableLine(name)} · \`npx folder-runner unmute '${printableLine(name)}'\` ends it`;
}
