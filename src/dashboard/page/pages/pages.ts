import type { ComponentType } from 'preact';
import type { IconName } from '../components/icon.tsx';
import type { PagePath } from '../router.ts';
import { MetricsPage } from './metrics/metrics.tsx';
import { Overview } from './overview/overview.tsx';
import { RunPage } from './runs/run.tsx';
import { RunsPage } from './runs/runs.tsx';
import { ScriptPage } from './script/script.tsx';
import { Scripts } from './scripts/scripts.tsx';

export interface PageProps {
  /** What of it: `hourly/clean-tmp`, `17`. */
  readonly item: string;
}

export interface PageEntry {
  readonly path: PagePath;
  /** In the navigation; without it, the page is reached from others only. */
  readonly navigation?: { readonly words: string; readonly icon: IconName };
  /** Of all: `#/scripts`. */
  readonly View?: ComponentType;
  /** Of one: `#/scripts/hourly/clean-tmp`. */
  readonly OneView?: ComponentType<PageProps>;
}

/** All pages, in the order of the navigation; on a phone, the first four are at hand, the others behind "More". */
export const pages: readonly PageEntry[] = [
  { path: '/', navigation: { words: 'Overview', icon: 'overview' }, View: Overview },
  { path: '/scripts', navigation: { words: 'Scripts', icon: 'scripts' }, View: Scripts, OneView: ScriptPage },
  { path: '/runs', navigation: { words: 'Runs', icon: 'runs' }, View: RunsPage, OneView: RunPage },
  { path: '/metrics', navigation: { words: 'Metrics', icon: 'metrics' }, View: MetricsPage },
];
