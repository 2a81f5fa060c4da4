import bytes from 'bytes';

const form = /^\d+(?:\.\d+)? ?(?:b|kb|mb|gb|tb)$/i;

/** Bytes of `64kb`, `256mb`, `1.5 GB` (1 kb is 1024 bytes); null unless it is a positive number with its unit. */
export function parseByteSize(text: string): number | null {
  if (!form.test(text)) return null;
  const size = bytes.parse(text.replace(' ', ''));
  return size !== null && Number.isSafeInteger(size) && size > 0 ? size : null;
}
