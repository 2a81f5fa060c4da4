import type { ComponentType } from 'preact';
import type { IconName } from '../components/state.tsx';
import { isStatic } from '../data.ts';
import type { PagePath } from '../router.ts';
import { ActivityPage } from './activity.tsx';
import { Incidents } from './incidents.tsx';
import { MetricsPage } from './metrics.tsx';
import { NextPage } from './next/next.tsx';
import { OverviewPage } from './overview/overview.tsx';
import { OneJob } from './queue/job.tsx';
import { QueuePage } from './queue/queue.tsx';
import { RunPage } from './runs/run.tsx';
import { RunsPage } from './runs/runs.tsx';
import { ScriptPage } from './scripts/script.tsx';
import { Scripts } from './scripts/scripts.tsx';
import { SettingsPage } from './settings.tsx';
import { Workers } from './workers.tsx';

interface PageProps {
  /** The item shown: `hourly/clean-tmp`, `17`. */
  readonly item: string;
}

export interface PageEntry {
  readonly path: PagePath;
  /** In the navigation; without it, the page is reached from others only. */
  readonly navigation?: { readonly words: string; readonly icon: IconName };
  /** Shows all items: `#/scripts`. */
  readonly View?: ComponentType;
  /** Shows one item: `#/scripts/hourly/clean-tmp`. */
  readonly OneView?: ComponentType<PageProps>;
}

const all: readonly PageEntry[] = [
  { path: '/', navigation: { words: 'Overview', icon: 'overview' }, View: OverviewPage },
  { path: '/scripts', navigation: { words: 'Scripts', icon: 'scripts' }, View: Scripts, OneView: ScriptPage },
  { path: '/runs', navigation: { words: 'Runs', icon: 'runs' }, View: RunsPage, OneView: RunPage },
  { path: '/queue', navigation: { words: 'Queue', icon: 'queue' }, View: QueuePage },
  { path: '/jobs', OneView: OneJob },
  { path: '/incidents', navigation: { words: 'Incidents', icon: 'incidents' }, View: Incidents },
  { path: '/next', navigation: { words: 'Next', icon: 'waiting' }, View: NextPage },
  { path: '/workers', navigation: { words: 'Workers', icon: 'workers' }, View: Workers },
  { path: '/activity', navigation: { words: 'Activity', icon: 'activity' }, View: ActivityPage },
  { path: '/metrics', navigation: { words: 'Metrics', icon: 'metrics' }, View: MetricsPage },
  { path: '/settings', navigation: { words: 'Settings', icon: 'settings' }, View: SettingsPage },
];

/**
 * All pages, in the order of the navigation; on a phone, the first four are at hand, the others behind "More". A
 * report has no settings in it.
 */
export const pages: readonly PageEntry[] = isStatic ? all.filter(({ path }) => path !== '/settings') : all;
