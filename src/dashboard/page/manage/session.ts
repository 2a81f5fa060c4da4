import { computed, signal } from '@preact/signals';
import type { components } from '../../client/paths.ts';
import { client, isStatic } from '../data.ts';

/** The viewer and their rights; null: not known yet, or nobody because the page is a report. */
export const session = signal<Session | null>(null);

type Session = components['schemas']['Session'];

/** Whether the viewer may change something: without it, no verb is shown. */
export const mayManage = computed(() => session.value?.permission === 'manage');

/** Asks the server who looks. */
async function readSession(): Promise<void> {
  const { data } = await client.GET('/api/session');
  session.value = data ?? null;
}

if (!isStatic) {
  // The one place where what changes something is marked as the page's own.
  client.use({
    onRequest: ({ request }) => {
      const csrf = session.peek()?.csrf;
      if (request.method !== 'GET' && csrf) request.headers.set('x-csrf-token', csrf);
    },
  });
  readSession().catch(() => {
    // Other requests show that the server cannot be reached.
  });
}
