import { computed, signal } from '@preact/signals';
import { serverNow } from '../clock.ts';
import { Notice } from '../components/notice.tsx';
import { State } from '../components/state.tsx';
import { Name } from '../components/text.tsx';
import { Time } from '../components/time.tsx';
import { tell } from '../components/toast.tsx';
import { client, connection, isStatic } from '../data.ts';
import { session } from '../manage/session.ts';
import { report } from '../source/embedded.ts';

/** When the server was last known to be there. */
const heardAt = signal(Date.now());
let isOnline = true;
connection.subscribe((state) => {
  // Reconnecting becomes offline without a word of the server between.
  if (isOnline && state !== 'online') heardAt.value = serverNow.peek();
  isOnline = state === 'online';
});

/** Whether what is shown is live. */
export function ConnectionBadge() {
  if (isStatic) return <ReportBadge />;
  const state = connection.value;
  return (
    <span role="status">
      {state === 'online' && <State state="live" tone="good" word="live" />}
      {state === 'reconnecting' && <State state="reconnecting" tone="warning" word="reconnecting" />}
      {state === 'offline' && <State state="offline" tone="bad" word="offline" />}
    </span>
  );
}

function ReportBadge() {
  if (report.value === null) return null;
  const { madeAt, runsSince } = report.value;
  return (
    <span class="states">
      <State state="report" tone={isReportLate.value ? 'bad' : 'ended'} word="report" />
      <span class="quiet small">
        of <Time at={madeAt} as="minute" />, <Time at={madeAt} as="relative" />
        {runsSince !== null && (
          <>
            , runs from <Time at={runsSince} as="short" /> on
          </>
        )}
      </span>
    </span>
  );
}

/** Whether a pass should have replaced this report: on a host whose cron has died, it would stay green for ever. */
export const isReportLate = computed(() => {
  const dueAt = report.value?.dueAt ?? null;
  return dueAt !== null && serverNow.value > Date.parse(dueAt);
});

/** Above each page of a report that a pass should have replaced. */
export function LateReport() {
  if (!isReportLate.value || report.value === null) return null;
  const { madeAt, dueAt } = report.value;
  return (
    <Notice tone="bad" title="Nobody knows how things stand: this report is old">
      <p>
        It was written <Time at={madeAt} />, and a pass should have replaced it by <Time at={dueAt} as="minute" />. Cron
        may not call the runner any more: <code>npx folder-runner doctor</code> on the host tells why.
      </p>
    </Notice>
  );
}

/** Above each page, while nothing new is heard. */
export function Offline() {
  if (isStatic || connection.value !== 'offline') return null;
  return (
    <Notice tone="warning" title="No connection to the server">
      <p>
        You see how things stood <Time at={new Date(heardAt.value).toISOString()} />. The page goes on by itself as soon
        as the server answers. If it has ended, start it again, and open the address that it prints.
      </p>
    </Notice>
  );
}

/** Who looks, whether they may change anything, and their way out. */
export function Viewer() {
  const viewer = session.value;
  if (viewer === null) return null;
  return (
    <span class="states">
      <span class="quiet small">
        <Name text={viewer.name} />
        {viewer.permission === 'read' && ', may only look'}
      </span>
      {viewer.expiresAt !== null && (
        <button type="button" onClick={logOut}>
          Log out
        </button>
      )}
    </span>
  );
}

async function logOut(): Promise<void> {
  try {
    const { error } = await client.DELETE('/api/session');
    if (error === undefined) location.reload();
    else tell(error.detail ?? 'The server refused it.', { isBad: true });
  } catch {
    tell('The server cannot be reached.', { isBad: true });
  }
}
