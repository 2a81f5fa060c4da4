import { signal } from '@preact/signals';
import { isStatic } from './data.ts';
import { embedded } from './source/embedded.ts';

/** UTC epoch milliseconds by the server's clock, each second anew; in a report, when that was made. */
export const serverNow = signal(Date.now());

let aheadMs = 0;

/** What the server's clock says, as the viewer's may be wrong: "2 minutes ago" is told by the server's. */
export function setServerTime(at: string | null): void {
  const atMs = at === null ? Number.NaN : Date.parse(at);
  if (Number.isNaN(atMs)) return;
  const ahead = atMs - Date.now();
  // An answer that was a moment on its way, or was kept a while for several viewers, changes nothing.
  if (isStatic || Math.abs(ahead - aheadMs) > 5000) aheadMs = ahead;
  serverNow.value = isStatic ? atMs : Date.now() + aheadMs;
}

if (!isStatic) {
  const tick = () => {
    if (!document.hidden) serverNow.value = Date.now() + aheadMs;
  };
  setInterval(tick, 1000);
  document.addEventListener('visibilitychange', tick);
}

embedded?.then(({ madeAt }) => setServerTime(madeAt));
