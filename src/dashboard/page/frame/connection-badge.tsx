import { signal } from '@preact/signals';
import { serverNow } from '../clock.ts';
import { Notice } from '../components/notice.tsx';
import { State } from '../components/state.tsx';
import { Name } from '../components/text.tsx';
import { Time } from '../components/time.tsx';
import { tell } from '../components/toast.tsx';
import { client, connection, isStatic } from '../data.ts';
import { session } from '../manage/session.ts';
import { runsSince } from '../source/embedded.ts';

/** When the server was last known to be there. */
const heardAt = signal(Date.now());
connection.subscribe((state) => {
  if (state !== 'online') heardAt.value = serverNow.peek();
});

/** Whether what is shown is live. */
export function ConnectionBadge() {
  if (isStatic) {
    return (
      <span class="states">
        <State state="report" tone="ended" word="report" />
        <span class="quiet small">
          of <Time at={new Date(serverNow.value).toISOString()} as="minute" />
          {runsSince.value !== null && (
            <>
              , runs from <Time at={runsSince.value} as="short" /> on
            </>
          )}
        </span>
      </span>
    );
  }
  const state = connection.value;
  return (
    <span role="status">
      {state === 'online' && <State state="live" tone="good" word="live" />}
      {state === 'reconnecting' && <State state="reconnecting" tone="warning" word="reconnecting" />}
      {state === 'offline' && <State state="offline" tone="bad" word="offline" />}
    </span>
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
