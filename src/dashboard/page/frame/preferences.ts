import { effect, signal } from '@preact/signals';

/** Light, dark, or as the viewer's system has it. */
export type Scheme = 'auto' | 'light' | 'dark';

const schemes: readonly Scheme[] = ['auto', 'light', 'dark'];

const SCHEME = 'runner.scheme';

/** What the viewer has chosen; kept in this browser, as far as that lets it. */
export const scheme = signal<Scheme>(schemes.find((known) => known === recall(SCHEME)) ?? 'auto');

effect(() => {
  const { dataset } = document.documentElement;
  if (scheme.value === 'auto') delete dataset.scheme;
  else dataset.scheme = scheme.value;
  keep(SCHEME, scheme.value);
});

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

// Where a system names no language, Chromium makes up one that Intl refuses, and uPlot asks with it once it is loaded.
if (!isLanguage(navigator.language)) Object.defineProperty(navigator, 'language', { value: 'en' });

function isLanguage(tag: string): boolean {
  try {
    return Intl.NumberFormat.supportedLocalesOf(tag).length >= 0;
  } catch {
    return false;
  }
}
