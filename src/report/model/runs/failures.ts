import type { LogView } from '../../../discovery/site.ts';
import { causeOf } from '../../../queue/settle/incidents.ts';
import { isFailure, outcomes } from '../../../store/words.ts';
import { record, shown } from '../../../system/base/record.ts';
import type { Clock } from '../../text/clock.ts';
import { selectRunPage, tellRun, toldRunRecord } from './run-pages.ts';

/** The newest of the runs of a script that failed with one cause. */
export const failureRecord = record('Failure', {
  ...toldRunRecord.fields,
  times: shown.integer.about('The number of runs that failed with this cause'),
  firstAt: shown.instant.about('When the first of them started'),
});

interface FailuresQuery {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Maximum number of causes. */
  readonly limit: number;
}

/** Most failed runs to compare, the newest: a bad night has thousands. */
const MOST_COMPARED = 300;

const failures = outcomes.filter(isFailure);

/** The failed runs of a window by script and cause, as their summaries tell it; the newest first. */
export async function readFailures(log: LogView, { limit, ...window }: FailuresQuery, clock: Clock) {
  const runs = await selectRunPage(log, { ...window, outcomes: failures, limit: MOST_COMPARED + 1 });
  const compared = runs.slice(0, MOST_COMPARED);
  const told = await Array.fromAsync(compared, (run) => tellRun(log, run, clock));
  const groups = Map.groupBy(told, (run) => JSON.stringify([run.script, run.outcome, causeOf(run.summary ?? '')]));
  const items = [...groups.values()].map((group) => {
    const [newest, oldest] = [group[0] as (typeof group)[number], group.at(-1)];
    return { ...newest, times: group.length, firstAtMs: oldest?.startedAtMs ?? newest.startedAtMs };
  });
  return { items: items.slice(0, limit), isCut: runs.length > MOST_COMPARED };
}
