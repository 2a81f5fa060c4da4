import { signal } from '@preact/signals';
import { formatElapsed, UNKNOWN } from '../../../system/base/format.ts';
import { isStatic, viewerZone } from '../data.ts';
import { embedded, report } from '../source/embedded.ts';

/** UTC epoch milliseconds, each second anew: by the server's clock; in a report by the viewer's. */
export const serverNow = signal(Date.now());

let aheadMs = 0;

/** Notes the server's time: "2 minutes ago" goes by its clock, as the viewer's may be wrong. */
export function setServerTime(at: string | null): void {
  const atMs = at === null ? Number.NaN : Date.parse(at);
  if (Number.isNaN(atMs)) return;
  const ahead = atMs - Date.now();
  // An answer that was a moment on its way, or was kept a while for several viewers, changes nothing. A report is old,
  // unless it is of the future: then the viewer's clock is behind.
  if (isStatic ? ahead > 0 : Math.abs(ahead - aheadMs) > 5000) aheadMs = ahead;
  serverNow.value = Date.now() + aheadMs;
}

const tick = () => {
  if (!document.hidden) serverNow.value = Date.now() + aheadMs;
};
setInterval(tick, 1000);
document.addEventListener('visibilitychange', tick);

embedded?.then(({ madeAt }) => setServerTime(madeAt));

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

const wholeFormat = new Intl.DateTimeFormat('en-CA', {
  ...({ year: 'numeric', month: '2-digit', day: '2-digit' } as const),
  ...({ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const),
});

function parseInstant(at: string | null | undefined): number | null {
  const atMs = Date.parse(at ?? '');
  return Number.isNaN(atMs) ? null : atMs;
}

/** `2026-11-03 14:05:09`, in the viewer's zone. */
export function writeInstant(atMs: number): string {
  return wholeFormat.format(atMs).replace(',', '');
}

/** `14:05` today, `11-03 14:05` in this year, `2025-11-03` before. */
export function formatShort(atMs: number, nowMs: number): string {
  const whole = writeInstant(atMs);
  const today = writeInstant(nowMs);
  if (Math.abs(atMs - nowMs) < DAY_MS && whole.slice(0, 10) === today.slice(0, 10)) return whole.slice(11, 16);
  return whole.slice(0, 4) === today.slice(0, 4) ? whole.slice(5, 16) : whole.slice(0, 10);
}

/** `3m ago`, `in 2h`, `just now`: one unit, as nobody needs more at a glance. */
function formatRelative(atMs: number, nowMs: number): string {
  const apart = Math.abs(atMs - nowMs);
  if (apart < 5000) return 'just now';
  const [unit = 1, name = 's'] = (
    [
      [DAY_MS, 'd'],
      [60 * MINUTE_MS, 'h'],
      [MINUTE_MS, 'm'],
    ] as const
  ).find(([size]) => apart >= size) ?? [1000, 's'];
  const text = `${Math.floor(apart / unit)}${name}`;
  return atMs > nowMs ? `in ${text}` : `${text} ago`;
}

interface TimeProps {
  /** As the API has it, UTC. */
  readonly at: string | null | undefined;
  /** Default: `both`, `14:05, 3m ago`. */
  readonly as?: 'both' | 'relative' | 'short' | 'minute' | 'whole';
}

/** An instant in the viewer's zone; the pointer over it tells UTC. */
export function Time({ at, as = 'both' }: TimeProps) {
  const atMs = parseInstant(at);
  if (atMs === null) return <>{UNKNOWN}</>;
  const short = formatShort(atMs, serverNow.value);
  const relative = formatRelative(atMs, serverNow.value);
  const text = {
    both: `${short}, ${relative}`,
    relative,
    short,
    minute: writeInstant(atMs).slice(0, 16),
    whole: writeInstant(atMs),
  }[as];
  const utc = new Date(atMs).toISOString();
  return (
    <time datetime={utc} title={`${writeInstant(atMs)} ${viewerZone} · ${utc.slice(0, 19).replace('T', ' ')} UTC`}>
      {text}
    </time>
  );
}

/** How long it has lasted, each second anew: `2m 5s`. In a report: until that was made. */
export function Elapsed({ since }: { readonly since: string | null }) {
  const sinceMs = parseInstant(since);
  return (
    <span class="figure">
      {sinceMs === null ? UNKNOWN : formatElapsed((parseInstant(report.value?.madeAt) ?? serverNow.value) - sinceMs)}
    </span>
  );
}

/** How long until then, each second anew; `due` once it is over. */
export function Countdown({ until }: { readonly until: string | null }) {
  const untilMs = parseInstant(until);
  if (untilMs === null) return <>{UNKNOWN}</>;
  const left = untilMs - serverNow.value;
  return <span class="figure">{left <= 0 ? 'due' : `in ${formatElapsed(left)}`}</span>;
}

/** `until 16:00, in 2h`, or until somebody ends it. */
export function Until({ at, forever }: { readonly at: string | null; readonly forever: string }) {
  if (at === null) return <>until {forever}</>;
  return (
    <>
      until <Time at={at} />
    </>
  );
}
