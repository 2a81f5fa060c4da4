import { printableLine } from '../../../system/base/text.ts';

/** A name or message of others: what is invisible or reverses text is made visible, and turns nothing around it. */
export function Name({ text }: { readonly text: string }) {
  return <bdi>{printableLine(text)}</bdi>;
}

/** A sentence of the runner, with its commands in backticks as code. */
export function Words({ text }: { readonly text: string }) {
  const parts = printableLine(text).split('`');
  // A backtick without another is a letter.
  if (parts.length % 2 === 0) return <bdi>{printableLine(text)}</bdi>;
  return <bdi>{parts.map((part, index) => (index % 2 === 1 ? <code key={part}>{part}</code> : part))}</bdi>;
}
