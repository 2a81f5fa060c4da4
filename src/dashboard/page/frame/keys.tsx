import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { hasKeys } from './preferences.ts';

/** The keys and their effects, in the dialog's words. */
const keyWords = [
  ['/', 'to the search field'],
  ['j', 'to the next row'],
  ['k', 'to the row before'],
  ['o', 'opens the row, as Enter does'],
  ['?', 'shows these keys'],
  ['Esc', 'closes a dialog, clears the search'],
] as const;

/** Single keys for the whole page, and the dialog that lists them. */
export function Keys() {
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    const actions: Readonly<Record<string, () => void>> = {
      '/': focusSearch,
      j: () => focusRow('next'),
      k: () => focusRow('before'),
      o: openRow,
      '?': () => setIsOpen(true),
    };
    const press = (event: KeyboardEvent): void => {
      const action = Object.hasOwn(actions, event.key) ? actions[event.key] : undefined;
      if (action === undefined || !isForPage(event)) return;
      event.preventDefault();
      action();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  return isOpen && <KeysDialog onClose={() => setIsOpen(false)} />;
}

/** Neither a browser's own key, nor a letter that is typed. Shift is no modifier: some keyboards need it for `/`. */
function isForPage({ target, ctrlKey, altKey, metaKey, defaultPrevented }: KeyboardEvent): boolean {
  if (!hasKeys.peek() || ctrlKey || altKey || metaKey || defaultPrevented) return false;
  const isField =
    target instanceof HTMLElement && (target.isContentEditable || target.matches('input, select, textarea'));
  return !isField && document.querySelector('dialog[open]') === null;
}

/** A report has none in its frame: then the one of the page. */
function focusSearch(): void {
  document.querySelector<HTMLElement>('.site-search input, main input[type="search"]')?.focus();
}

const ROW = 'main :is(tbody tr:not(.note), li)';
const LINK = 'a[href]';

function focusRow(direction: 'next' | 'before'): void {
  const from = document.activeElement ?? document.body;
  const rows = [...document.querySelectorAll(ROW)].filter((row) => row.querySelector(LINK)?.checkVisibility());
  const lies = (row: Element, bit: number) => (from.compareDocumentPosition(row) & bit) !== 0 && !row.contains(from);
  const row =
    direction === 'next'
      ? rows.find((each) => lies(each, Node.DOCUMENT_POSITION_FOLLOWING))
      : rows.findLast((each) => lies(each, Node.DOCUMENT_POSITION_PRECEDING));
  row?.querySelector<HTMLElement>(LINK)?.focus();
}

function openRow(): void {
  document.activeElement?.closest(ROW)?.querySelector<HTMLElement>(LINK)?.click();
}

function KeysDialog({ onClose }: { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>Keys</h2>
      <ul class="keys">
        {keyWords.map(([key, words]) => (
          <li key={key}>
            <kbd>{key}</kbd> {words}
          </li>
        ))}
      </ul>
      <p class="small quiet">“Keys” at the top of the page turns them off.</p>
      <p class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </p>
    </dialog>
  );
}

/** Software for speech types letters that nobody means: the keys can be turned off. */
export function KeysSwitch() {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={hasKeys.value}
        onChange={({ currentTarget }) => {
          hasKeys.value = currentTarget.checked;
        }}
      />
      Keys
    </label>
  );
}
