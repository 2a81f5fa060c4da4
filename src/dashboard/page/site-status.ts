import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { components } from '../client/paths.ts';
import { setServerTime } from './components/time.tsx';
import { type Asked, useQuery } from './data.ts';

const unknown: Asked<components['schemas']['Status']> = { data: null, problem: null };

/** How the site stands, for the tab and for each page that shows a part of it. */
export const siteStatus = signal(unknown);

/** Asks how the site stands, once for all: the frame of each page calls it. */
export function useSiteStatus(): void {
  const { data, problem } = useQuery('/api/status', {});
  useEffect(() => {
    siteStatus.value = { data, problem };
    setServerTime(data?.at ?? null);
  }, [data, problem]);
  useEffect(
    () => () => {
      siteStatus.value = unknown;
    },
    [],
  );
}
