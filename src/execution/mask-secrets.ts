import type { Settings } from '../config/settings.ts';
import { findSecrets, type Secret } from './find-secrets.ts';

/** Where a piece was cut out of a longer text: a secret may have been cut with it. */
export interface Cut {
  readonly start?: boolean;
  readonly end?: boolean;
}

type Pieces = Iterable<Buffer> | AsyncIterable<Buffer>;

/** Puts the names of secrets in the place of their values, in what is kept of a run. */
export interface Masker {
  text(text: string): string;
  bytes(bytes: Buffer, cut?: Cut): Buffer;
  /** Also where a secret is spread over two pieces. */
  stream(pieces: Pieces, cut?: Cut): Pieces;
}

/** Of a secret that was cut, so much tells nothing. */
const LONGEST_REST = 3;

/** By default the secrets of this process: those are what its scripts can have got. */
export function createMasker(
  settings: Pick<Settings, 'env' | 'secrets'>,
  environment: NodeJS.ProcessEnv = process.env,
): Masker {
  const secrets = findSecrets(settings, environment);
  return secrets.length === 0 ? unmasked : maskThose(secrets);
}

const unmasked: Masker = {
  text: (text) => text,
  bytes: (bytes) => bytes,
  stream: (pieces) => pieces,
};

function maskThose(secrets: readonly Secret[]): Masker {
  const masks = new Map(secrets.toReversed().map(({ value, mask }) => [value, mask]));
  const form = new RegExp([...masks.keys()].toReversed().map(escapeForm).join('|'), 'g');
  const change = (piece: Buffer, mask: (text: string) => string): Buffer => {
    const text = toLatin1(piece);
    const masked = mask(text);
    return masked === text ? piece : Buffer.from(masked, 'latin1');
  };
  const rests: Masker['bytes'] = (piece, cut = {}) =>
    change(piece, (text) => maskRests(text, secrets, cut));
  const bytes: Masker['bytes'] = (piece, cut) =>
    change(rests(piece, cut), (text) => text.replace(form, (value) => masks.get(value) as string));
  const text: Masker['text'] = (found) => {
    const whole = Buffer.from(found);
    const masked = bytes(whole);
    return masked === whole ? found : masked.toString('utf8');
  };
  const longest = secrets[0]?.value.length ?? 0;
  const splitAt = (piece: Buffer) => splitPoint(piece, form, longest);
  const stream: Masker['stream'] = (pieces, cut = {}) =>
    maskStream(pieces, cut, { bytes, rests, splitAt, longest });
  return { text, bytes, stream };
}

function escapeForm(value: string): string {
  return value.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}

function toLatin1(bytes: Buffer): string {
  return bytes.toString('latin1');
}

/** What is left at its ends of a secret that was cut. */
function maskRests(text: string, secrets: readonly Secret[], { start, end }: Cut): string {
  const first = start
    ? longestRest(secrets, (value, size) => text.startsWith(value.slice(-size)))
    : null;
  const rest = first === null ? text : first.mask + text.slice(first.size);
  const last = end
    ? longestRest(secrets, (value, size) => rest.endsWith(value.slice(0, size)))
    : null;
  return last === null ? rest : rest.slice(0, -last.size) + last.mask;
}

interface Rest {
  readonly mask: string;
  readonly size: number;
}

function longestRest(
  secrets: readonly Secret[],
  isThere: (value: string, size: number) => boolean,
): Rest | null {
  let longest: Rest | null = null;
  for (const { value, mask } of secrets) {
    let size = value.length;
    while (size > LONGEST_REST && !isThere(value, size)) size -= 1;
    if (size > Math.max(LONGEST_REST, longest?.size ?? 0)) longest = { mask, size };
  }
  return longest;
}

interface PieceMasker {
  readonly bytes: Masker['bytes'];
  readonly rests: Masker['bytes'];
  /** Up to where a piece can be masked without knowing the next one. */
  readonly splitAt: (piece: Buffer) => number;
  readonly longest: number;
}

async function* maskStream(
  pieces: Pieces,
  { start = false, end = false }: Cut,
  { bytes, rests, splitAt, longest }: PieceMasker,
): AsyncGenerator<Buffer> {
  let kept: Buffer = Buffer.alloc(0);
  let atStart = start;
  for await (const piece of pieces) {
    kept = Buffer.concat([kept, piece]);
    if (kept.length < longest) continue;
    kept = rests(kept, { start: atStart });
    atStart = false;
    const split = splitAt(kept);
    yield bytes(kept.subarray(0, split));
    kept = kept.subarray(split);
  }
  yield bytes(kept, { start: atStart, end });
}

/** A secret that begins before this ends in the piece, and none is divided by it. */
function splitPoint(piece: Buffer, form: RegExp, longest: number): number {
  let split = Math.max(0, piece.length - longest + 1);
  for (const { index, 0: value } of toLatin1(piece).matchAll(form)) {
    if (index >= split) break;
    split = Math.max(split, index + value.length);
  }
  return split;
}
