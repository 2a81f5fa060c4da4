import { effect, signal } from '@preact/signals';
import { countOf } from '../../../system/base/format.ts';
import { printableLine } from '../../../system/base/text.ts';
import type { components } from '../../client/paths.ts';
import { connection, isStatic } from '../data.ts';
import { place } from '../router.ts';
import { siteStatus } from '../site-status.ts';

type Status = components['schemas']['Status'];

/** The title of the page that is shown. */
export const pageTitle = signal('');

// The title and the icon of the browser's tab tell how the site stands; unknown before the viewer has logged in.
effect(() => {
  const state = siteStatus.value.data;
  const isOverview = place.value.path === '/' && state !== null;
  const parts = [isOverview ? null : pageTitle.value, state && stateInWords(state), state?.site, 'runner'];
  document.title = parts.flatMap((part) => (part ? printableLine(part) : [])).join(' · ');
});

/** In as few words as a tab has room for: `2 failing`. */
function stateInWords({ verdict, troubles }: Pick<Status, 'verdict' | 'troubles'>): string {
  const counted = (grade: string) => troubles.filter((trouble) => trouble.grade === grade).length;
  const bad = ['critical', 'failing'].flatMap((grade) => (counted(grade) === 0 ? [] : `${counted(grade)} ${grade}`));
  if (bad.length > 0) return bad.join(', ');
  if (counted('warning') > 0) return countOf(counted('warning'), 'warning');
  return verdict.level === 'good' ? 'all well' : verdict.title;
}

/** Each state differs by its sign, too: as in the page, colours alone say nothing to many. */
const signs: Readonly<Record<Status['verdict']['level'] | 'unknown', readonly [ground: string, sign: string]>> = {
  good: ['#1d8a43', 'M9 17l5 5 9-11'],
  warning: ['#b97700', 'M16 8v10M16 23v1'],
  bad: ['#c62020', 'M10 10l12 12M22 10L10 22'],
  paused: ['#7a4bb5', 'M12 9v14M20 9v14'],
  waiting: ['#5b6675', 'M16 8v8l6 4'],
  unknown: ['#5b6675', 'M9 16h14'],
};

effect(() => {
  const isHeard = isStatic || connection.value === 'online';
  const [ground, sign] = signs[isHeard ? (siteStatus.value.data?.verdict.level ?? 'unknown') : 'unknown'];
  const drawing =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="16" fill="${ground}"/>` +
    `<path d="${sign}" fill="none" stroke="#fff" stroke-width="4" stroke-linecap="round"/></svg>`;
  const link = document.head.querySelector<HTMLLinkElement>('link[rel=icon]');
  if (link !== null) link.href = `data:image/svg+xml,${encodeURIComponent(drawing)}`;
});
