import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';

interface DialogProps {
  readonly title: string;
  /** On the button that does it: `Delete 3 jobs`. */
  readonly action: string;
  /** Marks an action that cannot be undone. */
  readonly isDangerous?: boolean;
  /** Why it can't be done yet; the button waits. */
  readonly isBlocked?: boolean;
  /** Carries the action out. If it throws, the dialog stays and shows the message. */
  readonly onConfirm: () => Promise<void>;
  /** The dialog is over: done, or left by Escape or Cancel. */
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/**
 * Asks before something is done. The browser keeps the focus within it, closes it on Escape, and gives the focus back to
 * what had it before.
 */
export function ConfirmDialog({ title, action, onConfirm, onClose, children, ...more }: DialogProps) {
  const { isDangerous = false, isBlocked = false } = more;
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [isBusy, setIsBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const confirm = async (event: Event) => {
    event.preventDefault();
    setIsBusy(true);
    try {
      await onConfirm();
      dialog.current?.close();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setIsBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={id} onClose={onClose}>
      <form onSubmit={confirm}>
        <h2 id={id}>{title}</h2>
        {children}
        {problem !== null && (
          <p class="field-problem" role="alert">
            {problem}
          </p>
        )}
        <p class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={isDangerous ? 'danger' : 'primary'} disabled={isBusy || isBlocked}>
            {action}
          </button>
        </p>
      </form>
    </dialog>
  );
}
