import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Page } from '../components/page.tsx';
import { client, isStatic, UNREACHABLE } from '../data.ts';
import { session } from '../manage/session.ts';

/** Whether the server has refused to answer without a credential. */
export const isLoginNeeded = signal(false);

/** Why the last credential was of no use; null: there was none, or it was. */
const refused = signal<string | null>(null);

/** Why the session that was there is of no use any more; null: there was none. */
const ended = signal<string | null>(null);

if (!isStatic) {
  client.use({
    onResponse: async ({ request, response }) => {
      if (response.status !== 401 || request.method !== 'GET') return;
      if (hasWrongCredential(response)) ended.value = ((await response.clone().json()) as { detail: string }).detail;
      // The browser itself forgets a cookie whose time is over.
      else if (session.peek()?.expiresAt) ended.value = 'Your session has ended: its time is over.';
      isLoginNeeded.value = true;
    },
  });
}

function hasWrongCredential(response: Response): boolean {
  return response.headers.get('www-authenticate')?.includes('invalid_token') ?? false;
}

/** Returns true if the server accepts the token; otherwise `refused` tells why not. */
async function logIn(token: string): Promise<boolean> {
  try {
    const { error } = await client.POST('/api/session', { body: { token } });
    refused.value = error === undefined ? null : (error.detail ?? 'The server refused it.');
  } catch {
    refused.value = UNREACHABLE;
  }
  return refused.value === null;
}

/**
 * Logs in by the key of an address that `runner web` has printed, and takes it out of the address and of the browser's
 * history. True: the page begins anew.
 */
export async function logInByAddress(): Promise<boolean> {
  const key = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (key === undefined || isStatic) return false;
  location.replace('#/');
  if (!(await logIn(decodeURIComponent(key)))) {
    isLoginNeeded.value = true;
    return false;
  }
  location.reload();
  return true;
}

/** Asks for a token, where nothing is shown without one. */
export function Login() {
  const [token, setToken] = useState('');
  const [isBusy, setIsBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setIsBusy(true);
    if (await logIn(token.trim())) location.reload();
    setIsBusy(false);
  };
  return (
    <Page title="Log in">
      <form class="card login" onSubmit={submit}>
        {ended.value !== null && <p role="status">{ended.value}</p>}
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          required
          value={token}
          aria-invalid={refused.value !== null}
          aria-describedby="token-help"
          onInput={({ currentTarget }) => setToken(currentTarget.value)}
        />
        {refused.value !== null && (
          <p class="field-problem" role="alert">
            {refused.value}
          </p>
        )}
        <button type="submit" class="primary" disabled={isBusy}>
          Log in
        </button>
        <p id="token-help" class="quiet small">
          Make a token on the host: <code>npx folder-runner web token add laptop --read</code>. Instead of{' '}
          <code>--read</code>: <code>--run</code> to start and retry, <code>--manage</code> to change everything,{' '}
          <code>--wall</code> to see no more than states and figures.
        </p>
      </form>
    </Page>
  );
}
