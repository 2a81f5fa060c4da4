import { signal } from '@preact/signals';

const LASTS_MS = 6000;

const told = signal<{ readonly text: string; readonly isBad: boolean } | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says in a sentence what came of something the viewer did; what failed stays until they close it. */
export function tell(text: string, { isBad = false } = {}): void {
  clearTimeout(timer);
  told.value = { text, isBad };
  if (!isBad) {
    timer = setTimeout(() => {
      told.value = null;
    }, LASTS_MS);
  }
}

/** Where that is read, aloud by screen readers; once in the frame. */
export function Toasts() {
  const last = told.value;
  return (
    <div class="toasts" role="status" aria-live={last?.isBad ? 'assertive' : 'polite'}>
      {last !== null && (
        <p class={`toast ${last.isBad ? 'bad' : ''}`}>
          <span>{last.text}</span>
          <button
            type="button"
            onClick={() => {
              told.value = null;
            }}
          >
            Close
          </button>
        </p>
      )}
    </div>
  );
}
