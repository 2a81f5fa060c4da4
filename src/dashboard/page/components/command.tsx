import { Icon } from './icon.tsx';
import { tell } from './toast.tsx';

/** A command for a shell, with a button that copies it. */
export function Command({ text }: { readonly text: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell(`Copied: ${text}`);
    } catch {
      // Browsers refuse it on pages without TLS.
      tell('This browser does not let the page copy; select the command instead.', { isBad: true });
    }
  };
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" aria-label={`Copy ${text}`} onClick={copy}>
        <Icon name="copy" />
      </button>
    </span>
  );
}
