import { signal } from '@preact/signals';
import { Words } from './text.tsx';

const LASTS_MS = 6000;

/** With a link or a button: with a keyboard it takes a while to get there. */
const LASTS_LONGER_MS = 20_000;

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
 * Shows the result of the viewer's action in a sentence. It goes away by itself, unless it is pointed at or has the
 * focus; a failure stays until the viewer closes it.
 */
export function tell(
  text: string,
  { isBad = false, link = null, undo = null }: Partial<Omit<Told, 'text'>> = {},
): void {
  told.value = { text, isBad, link, undo };
  leave();
}

/** Lets the message go away after its time. */
function leave(): void {
  hold();
  const last = told.peek();
  if (last === null || last.isBad) return;
  timer = setTimeout(close, last.link === null && last.undo === null ? LASTS_MS : LASTS_LONGER_MS);
}

function hold(): void {
  clearTimeout(timer);
}

function close(): void {
  hold();
  told.value = null;
}

/** Shows the last message, which screen readers read aloud; once in the frame. */
export function Toasts() {
  const last = told.value;
  return (
    <div
      class="toasts"
      role="status"
      aria-live={last?.isBad ? 'assertive' : 'polite'}
      onPointerEnter={hold}
      onPointerLeave={leave}
      onFocusIn={hold}
      onFocusOut={leave}
    >
      {last !== null && (
        <div class={`toast ${last.isBad ? 'bad' : ''}`}>
          <p>
            <Words text={last.text} /> {last.link && <a href={last.link.href}>{last.link.words}</a>}
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
