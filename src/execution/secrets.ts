import type { Settings } from '../settings/settings.ts';

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
  const rests: Masker['bytes'] = (piece, cut = {}) => change(piece, (text) => maskRests(text, secrets, cut));
  const bytes: Masker['bytes'] = (piece, cut) =>
    change(rests(piece, cut), (text) => text.replace(form, (value) => masks.get(value) as string));
  const text: Masker['text'] = (found) => {
    const whole = Buffer.from(found);
    const masked = bytes(whole);
    return masked === whole ? found : masked.toString('utf8');
  };
  const longest = secrets[0]?.value.length ?? 0;
  const splitAt = (piece: Buffer) => splitPoint(piece, form, longest);
  const stream: Masker['stream'] = (pieces, cut = {}) => maskStream(pieces, cut, { bytes, rests, splitAt, longest });
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
  const first = start ? longestRest(secrets, (value, size) => text.startsWith(value.slice(-size))) : null;
  const rest = first === null ? text : first.mask + text.slice(first.size);
  const last = end ? longestRest(secrets, (value, size) => rest.endsWith(value.slice(0, size))) : null;
  return last === null ? rest : rest.slice(0, -last.size) + last.mask;
}

interface Rest {
  readonly mask: string;
  readonly size: number;
}

function longestRest(secrets: readonly Secret[], isThere: (value: string, size: number) => boolean): Rest | null {
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

/** What is not to be seen in what is kept of a run, and what stands there instead. */
interface Secret {
  /** Its bytes, one character each: output need not be text. */
  readonly value: string;
  readonly mask: string;
}

/** Shorter ones would shred output: `1234` stands everywhere. */
const SHORTEST_SECRET = 6;

const secretWords =
  /(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?|DATABASE_URL|DSN)S?(?:_|\d|$)/i;
const folders = ['PWD', 'OLDPWD'];

/**
 * The values of all variables whose names look secret or stand in the settings: those that the runner
 * was started with, of which scripts get some, and those that the settings give. The longest first, as
 * one may begin with another.
 */
function findSecrets(settings: Pick<Settings, 'env' | 'secrets'>, environment: NodeJS.ProcessEnv): readonly Secret[] {
  const variables = [...Object.entries(environment), ...Object.entries(settings.env)];
  const secrets = variables.flatMap(([name, value = '']) => secretsOf(name, value, settings));
  return secrets.toSorted((one, other) => other.value.length - one.value.length);
}

function secretsOf(name: string, value: string, { secrets }: Pick<Settings, 'secrets'>): readonly Secret[] {
  const isSecret = secrets.includes(name) || (secretWords.test(name) && !folders.includes(name));
  const values = [...(isSecret ? [value.trim()] : []), ...passwordsOf(value)];
  return values.flatMap(spellings).map((spelling) => ({ value: spelling, mask: toBytes(`[${name}]`) }));
}

/** `redis://user:password@host`, whatever the variable is called. */
function passwordsOf(value: string): readonly string[] {
  const [, password] = /^[a-z][a-z\d+.-]*:\/\/[^/?#\s]*?:([^/?#\s]+)@/i.exec(value) ?? [];
  return password === undefined ? [] : [password, decode(password)];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** As it is, in a URL, and within JSON or what `console.log` makes of an object. */
function spellings(value: string): readonly string[] {
  if (value.length < SHORTEST_SECRET) return [];
  const all = [value, ...spellingsInUrls(value), ...spellingsInJson(value)];
  return [...new Set(all)].map((spelling) => toBytes(spelling));
}

/** As JavaScript encodes it; as PHP and Python do, who leave other characters as they are; as forms do. */
function spellingsInUrls(value: string): readonly string[] {
  const encoded = encode(value);
  const strict = encoded.replace(/[!'()*]/g, (character) => `%${hex(character, 2).toUpperCase()}`);
  const withPlus = strict.replaceAll('%20', '+');
  const ofForm = new URLSearchParams([['', value]]).toString().slice(1);
  return [...[encoded, strict, withPlus, ofForm], ...[withPlus.replaceAll('~', '%7E'), strict.replaceAll('%2F', '/')]];
}

/** As JavaScript writes it; with `\u00e4` for ä, as Python does; with `\/` for a slash too, as PHP does. */
function spellingsInJson(value: string): readonly string[] {
  const plain = JSON.stringify(value).slice(1, -1);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII stays
  const ascii = plain.replace(/[^\x00-\x7f]/g, (character) => `\\u${hex(character, 4)}`);
  return [plain, ascii, ...[plain, ascii].map((text) => text.replaceAll('/', '\\/'))];
}

function hex(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, '0');
}

/** What the environment holds need not be valid UTF-16. */
function encode(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text;
  }
}

function toBytes(text: string): string {
  return Buffer.from(text).toString('latin1');
}
