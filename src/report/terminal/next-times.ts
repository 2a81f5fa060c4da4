import { printableLine } from '../../system/base/text.ts';
import type { NextTime } from '../model/next/next-times.ts';
import { describeNext, describeSchedule } from '../text/next-time.ts';
import type { Screen } from './screen.ts';
import { fitColumns, renderTable } from './table.ts';

/** When scripts run next that have times of their own; nothing where there are none. */
export function renderNextTimes(times: readonly NextTime[], { palette, clock, nowMs, columns }: Screen): string[] {
  if (times.length === 0) return [];
  const fitted = fitColumns<NextTime>(
    [
      { title: 'script', text: ({ script }) => printableLine(script), shrinks: { first: 24, last: 12 } },
      {
        title: 'next',
        text: (time) => describeNext(time, clock, nowMs),
        paint: (text, { atMs }) => (atMs !== null && atMs <= nowMs ? palette.warning(text) : text),
        shrinks: { first: 34, last: 12 },
      },
      { title: 'schedule', rank: 1, text: describeWhen, shrinks: { first: 24, last: 16 } },
    ],
    times,
    columns,
  );
  return renderTable(fitted, times, { palette, indent: '' });
}

function describeWhen(time: NextTime): string {
  const boot = time.isAfterBoot ? 'after each boot' : '';
  return [describeSchedule(time), boot].filter(Boolean).join('; ');
}
