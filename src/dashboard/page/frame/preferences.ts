import { effect, signal } from '@preact/signals';

/** Light, dark, or as the viewer's system has it. */
export type Scheme = 'auto' | 'light' | 'dark';

const schemes: readonly Scheme[] = ['auto', 'light', 'dark'];

const SCHEME = 'runner.scheme';

/** The viewer's choice, kept in this browser if it allows that. */
export const scheme = signal<Scheme>(schemes.find((known) => known === recall(SCHEME)) ?? 'auto');

effect(() => {
  wear(scheme.value);
  keep(SCHEME, scheme.value);
});

// Paper is white.
addEventListener('beforeprint', () => wear('light'));
addEventListener('afterprint', () => wear(scheme.peek()));

const WRAP = 'runner.wrap';

/** Whether long lines of an output are broken, or reach as far as they do. */
export const isWrapped = signal(recall(WRAP) !== 'no');

effect(() => keep(WRAP, isWrapped.value ? 'yes' : 'no'));

const KEYS = 'runner.keys';

/** Whether single keys move in the page. */
export const hasKeys = signal(recall(KEYS) !== 'no');

effect(() => keep(KEYS, hasKeys.value ? 'yes' : 'no'));

function wear(worn: Scheme): void {
  const { dataset } = document.documentElement;
  if (worn === 'auto') delete dataset.scheme;
  else dataset.scheme = worn;
}

/** Browsers refuse storage in private windows, of files, and where their owner says so: then nothing is kept. */
function recall(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // It holds until the page is closed.
  }
}

// If the system names no language, Chromium invents one that Intl refuses, and uPlot passes it to Intl when it loads.
if (!isLanguage(navigator.language)) Object.defineProperty(navigator, 'language', { value: 'en' });

function isLanguage(tag: string): boolean {
  try {
    return Intl.NumberFormat.supportedLocalesOf(tag).length >= 0;
  } catch {
    return false;
  }
}
