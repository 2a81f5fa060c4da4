import { computed, signal } from '@preact/signals';
import type { components } from '../../client/paths.ts';
import { client, isStatic } from '../data.ts';

/** The viewer and their rights; null: not known yet, or nobody because the page is a report. */
export const session = signal<Session | null>(null);

type Session = components['schemas']['Session'];

type Permission = Session['permission'];

/** Whether the viewer has a permission: without it, what needs it is not shown. */
export function may(permission: Permission): boolean {
  return session.value?.may.includes(permission) ?? false;
}

/** Whether the viewer may see states and figures only: the overview, without links and controls. */
export const isWall = computed(() => session.value?.permission === 'wall');

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
