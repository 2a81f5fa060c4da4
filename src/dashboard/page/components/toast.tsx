import { signal } from '@preact/signals';

const LASTS_MS = 6000;

interface Told {
  readonly text: string;
  readonly isBad: boolean;
  /** A page that shows more of it. */
  readonly link: { readonly href: string; readonly words: string } | null;
  /** Brings back what was before. */
  readonly undo: { readonly words: string; readonly act: () => void } | null;
}

const told = signal<Told | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

/**
 * Shows the result of the viewer's action in a sentence. A failure, or a message with a link, stays until they close
 * it: with a keyboard it takes a while to get there.
 */
export function tell(
  text: string,
  { isBad = false, link = null, undo = null }: Partial<Omit<Told, 'text'>> = {},
): void {
  clearTimeout(timer);
  told.value = { text, isBad, link, undo };
  if (!isBad && link === null && undo === null) timer = setTimeout(close, LASTS_MS);
}

function close(): void {
  told.value = null;
}

/** Shows the last message, which screen readers read aloud; once in the frame. */
export function Toasts() {
  const last = told.value;
  return (
    <div class="toasts" role="status" aria-live={last?.isBad ? 'assertive' : 'polite'}>
      {last !== null && (
        <div class={`toast ${last.isBad ? 'bad' : ''}`}>
          <p>
            {last.text} {last.link && <a href={last.link.href}>{last.link.words}</a>}
          </p>
          {last.undo && (
            <button type="button" onClick={last.undo.act}>
              {last.undo.words}
            </button>
          )}
          <button type="button" onClick={close}>
            Close
          </button>
        </div>
      )}
    </div>
  );
}
