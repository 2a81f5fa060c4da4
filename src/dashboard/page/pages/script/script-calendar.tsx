import { useState } from 'preact/hooks';
import { Calendar } from '../../charts/calendar.tsx';
import { now } from '../../clock.ts';
import { Answered } from '../../components/notice.tsx';
import { viewerZone } from '../../components/time.tsx';
import { isStatic, useAnswer } from '../../data.ts';
import { hrefOf } from '../../router.ts';

/** On which days of a year it ran and failed; the days are those of the viewer's zone. */
export function ScriptCalendar({ script }: { readonly script: string }) {
  const thisYear = new Date(now.peek()).getFullYear();
  const [year, setYear] = useState(thisYear);
  const query = { script, year: String(year), zone: viewerZone };
  const asked = useAnswer('/api/calendar', { params: { query: query as never } });
  const open = (day: string) => location.assign(hrefOf('/runs', null, { script, ...spanOfDay(day) }));
  return (
    <>
      {!isStatic && (
        <div class="bar">
          <button type="button" aria-label="The year before" onClick={() => setYear(year - 1)}>
            ←
          </button>
          <strong role="status">{year}</strong>
          <button
            type="button"
            aria-label="The year after"
            disabled={year >= thisYear}
            onClick={() => setYear(year + 1)}
          >
            →
          </button>
        </div>
      )}
      <Answered asked={asked}>{({ days }) => <Calendar year={year} days={days} of={script} onOpen={open} />}</Answered>
    </>
  );
}

/** From midnight to midnight where the viewer is. */
function spanOfDay(day: string): { readonly since: string; readonly until: string } {
  const from = new Date(`${day}T00:00`);
  const until = new Date(from);
  until.setDate(until.getDate() + 1);
  return { since: from.toISOString(), until: until.toISOString() };
}
