import { signal } from '@preact/signals';
import { isStatic } from './data.ts';
import { embedded } from './source/embedded.ts';

/** UTC epoch milliseconds, each second anew: by the server's clock; in a report by the viewer's. */
export const serverNow = signal(Date.now());

let aheadMs = 0;

/** What the server's clock says, as the viewer's may be wrong: "2 minutes ago" is told by the server's. */
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
