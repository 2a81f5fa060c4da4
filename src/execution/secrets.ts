import { readFileSync } from 'node:fs';
import type { Settings } from '../settings/settings.ts';
import {
  type Find,
  type FoundSecret,
  findShapes,
  findThroughSequences,
  LONGEST_SEQUENCES,
  LONGEST_SHAPE,
  mergeFound,
  spellings,
} from './secret-forms.ts';

/** The ends at which a piece was cut out of a longer text: a secret may have been cut, too. */
export interface Cut {
  readonly start?: boolean;
  readonly end?: boolean;
}

type Pieces = Iterable<Buffer> | AsyncIterable<Buffer>;

/** Replaces the values of secrets by their names in all that is kept of a run. */
export interface Masker {
  text(text: string): string;
  bytes(bytes: Buffer, cut?: Cut): Buffer;
  /** The bytes from `start` to `end`, without the parts of secrets that begin before or end after them. */
  part(bytes: Buffer, start: number, end: number): Buffer;
  /** How many bytes before and after a part may belong to the same secret. */
  readonly reach: number;
  /** Also masks a secret that is spread over two pieces. */
  stream(pieces: Pieces, cut?: Cut): Pieces;
}

/** Shortest secret, in bytes: shorter ones would shred the output, because `1234` occurs everywhere. */
const SHORTEST_SECRET = 6;

/**
 * Longest secret, in bytes: a variable has at most 128 KB, and six times as much if each byte is written as `\u00e4`.
 */
const LONGEST_SECRET = 1024 * 1024;

/** Longest rest of a cut secret that may be shown, in bytes. */
const LONGEST_REST = 3;

/**
 * Masks the values of these secrets, and secrets of a known form.
 *
 * @param notes notes about secrets that only the runner that left them knew; invalid ones are ignored
 */
export function maskSecrets(secrets: readonly Secret[], notes: readonly unknown[] = []): Masker {
  const noted = notes.filter(isNotedSecret);
  const mayHoldSequences = noted.length > 0 || secrets.some(({ value }) => value.includes('\x1b'));
  const find = findThroughSequences(findAll(secrets, noted), mayHoldSequences);
  const sizes = [...secrets.map(({ value }) => value.length), ...noted.map(({ size }) => size)];
  const longest = Math.max(LONGEST_SHAPE, ...sizes) + LONGEST_SEQUENCES;
  const part: Masker['part'] = (bytes, start, end) => {
    const text = toLatin1(bytes);
    const found = find(text);
    const masked = found.length > 0 ? maskFound(text, found, start, end) : null;
    return masked === null ? bytes.subarray(start, end) : Buffer.from(masked, 'latin1');
  };
  const rests: Masker['bytes'] = (piece, cut = {}) => {
    const text = toLatin1(piece);
    const masked = maskRests(text, secrets, cut);
    return masked === text ? piece : Buffer.from(masked, 'latin1');
  };
  const bytes: Masker['bytes'] = (piece, cut) => {
    const rest = rests(piece, cut);
    const whole = toLatin1(rest);
    const found = find(whole);
    return found.length === 0 ? rest : Buffer.from(maskFound(whole, found, 0, whole.length), 'latin1');
  };
  const text: Masker['text'] = (found) => {
    const whole = Buffer.from(found);
    const masked = bytes(whole);
    return masked === whole ? found : masked.toString('utf8');
  };
  const splitAt = (piece: Buffer) => splitPoint(piece, find, longest);
  const stream: Masker['stream'] = (pieces, cut = {}) => maskStream(pieces, cut, { bytes, rests, splitAt, longest });
  return { text, bytes, part, reach: longest - 1, stream };
}

function findAll(secrets: readonly Secret[], noted: readonly NotedSecret[]): Find {
  const known = secrets.length > 0 ? [findKnown(secrets)] : [];
  const fromNotes = noted.length > 0 ? [findNoted(noted)] : [];
  // The value of a variable is masked by its name, even if it has a known form.
  const finders = [...known, ...fromNotes, findShapes];
  return (text) => finders.map((find) => find(text)).reduce(mergeFound);
}

function maskFound(text: string, found: readonly FoundSecret[], start: number, end: number): string {
  let masked = '';
  let at = start;
  for (const { index, size, mask } of found) {
    if (index + size <= start || index >= end) continue;
    masked += text.slice(at, Math.max(at, index)) + mask;
    at = index + size;
  }
  return masked + text.slice(at, Math.max(at, end));
}

function findKnown(secrets: readonly Secret[]): Find {
  const masks = new Map(secrets.toReversed().map(({ value, mask }) => [value, mask]));
  const form = new RegExp([...masks.keys()].toReversed().map(escapeForm).join('|'), 'g');
  return (text) =>
    Array.from(text.matchAll(form), ({ index, 0: value }) => {
      return { index, size: value.length, mask: masks.get(value) as string };
    });
}

function escapeForm(value: string): string {
  return value.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}

function toLatin1(bytes: Buffer): string {
  return bytes.toString('latin1');
}

/** Masks the rest of a cut secret at the ends of a text. */
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
  /** The place up to which a piece can be masked without knowing the next one. */
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

/** Each secret that begins before this place ends in the piece, and the place divides none. */
function splitPoint(piece: Buffer, find: Find, longest: number): number {
  let split = Math.max(0, piece.length - longest + 1);
  for (const { index, size } of find(toLatin1(piece))) {
    if (index >= split) break;
    split = Math.max(split, index + size);
  }
  return split;
}

/**
 * A note about a secret for the process that collects the output of a dead runner: 32 bits. With them the secret is
 * found again, and one in four billion other places is mistaken for it. More bits would tell more to a reader of the
 * note, and a slow hash is impossible because it is needed at each place of a long output.
 */
export interface NotedSecret {
  readonly mask: string;
  /** In bytes. */
  readonly size: number;
  readonly digest: number;
}

export function noteSecret({ value, mask }: Secret): NotedSecret {
  let beginning = 0;
  for (let at = 0; at < SHORTEST_SECRET; at += 1) beginning = rollOn(beginning, value.charCodeAt(at), 0);
  return {
    mask,
    size: value.length,
    digest: joinDigest(digestBeginning(beginning), digestWhole(value, 0, value.length)),
  };
}

/** Checks the content of a file that a crash of the machine may have cut. */
function isNotedSecret(found: unknown): found is NotedSecret {
  const { mask, size, digest } = (found ?? {}) as Partial<NotedSecret>;
  return typeof mask === 'string' && isWithin(size, SHORTEST_SECRET, LONGEST_SECRET) && isWithin(digest, 0, 0xffffffff);
}

function isWithin(found: unknown, least: number, most: number): boolean {
  return Number.isInteger(found) && Number(found) >= least && Number(found) <= most;
}

/** Few places have the right beginning, and only those are compared as a whole. */
function findNoted(noted: readonly NotedSecret[]): Find {
  const longestFirst = noted.toSorted((one, other) => other.size - one.size);
  const isBeginning = new Uint8Array(2 ** 16);
  for (const { digest } of noted) isBeginning[digest >>> 16] = 1;
  return (text) => {
    const found: FoundSecret[] = [];
    let hash = 0;
    let free = 0;
    for (let end = 1; end <= text.length; end += 1) {
      const index = end - SHORTEST_SECRET;
      hash = rollOn(hash, text.charCodeAt(end - 1), index > 0 ? text.charCodeAt(index - 1) : 0);
      const beginning = digestBeginning(hash);
      if (isBeginning[beginning] === 0 || index < free) continue;
      const secret = longestFirst.find((each) => isNoted(text, index, beginning, each));
      if (secret === undefined) continue;
      found.push({ index, size: secret.size, mask: secret.mask });
      free = index + secret.size;
    }
    return found;
  };
}

function isNoted(text: string, index: number, beginning: number, { size, digest }: NotedSecret): boolean {
  const isPossible = beginning === digest >>> 16 && index + size <= text.length;
  return isPossible && digestWhole(text, index, size) === (digest & 0xffff);
}

function joinDigest(beginning: number, whole: number): number {
  return ((beginning << 16) | whole) >>> 0;
}

const FACTOR = 0x9e3779b1;
/** The weight of the character that leaves the hash: the sixth power of the factor. */
const LEAVING = Array.from({ length: SHORTEST_SECRET }).reduce<number>((power) => Math.imul(power, FACTOR), 1);

/** A rolling hash over as many characters as the shortest secret has, from the hash of the place before. */
function rollOn(hash: number, entering: number, leaving: number): number {
  return (Math.imul(hash, FACTOR) + entering - Math.imul(leaving, LEAVING)) | 0;
}

function digestBeginning(hash: number): number {
  return Math.imul(hash ^ (hash >>> 15), 0x85ebca6b) >>> 16;
}

function digestWhole(text: string, index: number, size: number): number {
  let hash = size;
  for (let at = index; at < index + size; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x5bd1e995);
    hash ^= hash >>> 15;
  }
  return Math.imul(hash, 0x85ebca6b) >>> 16;
}

/** A text that must not appear in what is kept of a run, and its replacement. */
export interface Secret {
  /** Its bytes, one character each: output need not be text. */
  readonly value: string;
  readonly mask: string;
}

/** Also at the end of a word: `PGPASSWORD`, `apiKey`. */
const secretWords =
  /(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|PASS|PWD|CREDENTIALS?|DATABASE_URL|DSN)S?(?:_|\d|$)/i;

/** Only whole words at the end of a name: `PATH`, `PATTERN`, `AUTHOR` and `SESSION_DRIVER` are no secrets. */
const lastWords =
  /(?:^|_)(?:auth|authorization|cookie|session|webhook(?:_?ur[il])?|pat|pin|pw|salt|signature|private|jwt|connection_?string)s?(?:_?\d+)?$/;

/** Folders, and the name of a desktop. */
const ordinary = ['PWD', 'OLDPWD', 'DESKTOP_SESSION'];

/**
 * The values of all variables whose names look secret or are listed in the settings: variables that the runner was
 * started with, of which scripts get some, and variables from the settings and the site's files. The longest comes first, because a secret
 * may begin with another one.
 */
export function findSecrets(
  settings: Pick<Settings, 'env' | 'secrets'> & Partial<Pick<Settings, 'given'>>,
  environment: NodeJS.ProcessEnv = process.env,
): readonly Secret[] {
  const address = readAddress(environment.RUNNER_DATABASE_URL_FILE);
  const { site = {}, tiers = {} } = settings.given ?? {};
  const sources: readonly NodeJS.ProcessEnv[] = [
    { ...environment, ...address },
    site,
    ...Object.values(tiers),
    settings.env,
  ];
  const secrets = sources.flatMap((source) =>
    Object.entries(source).flatMap(([name, value = '']) => secretsOf(name, value, settings)),
  );
  return secrets.toSorted((one, other) => other.value.length - one.value.length);
}

/** The password of the database, if it is in a file instead of the environment. */
function readAddress(path: string | undefined): NodeJS.ProcessEnv {
  try {
    return path === undefined || path === '' ? {} : { RUNNER_DATABASE_URL: readFileSync(path, 'utf8').trim() };
  } catch {
    // Opening the log reports this error.
    return {};
  }
}

/** Whether a variable's value is hidden because of its name. */
export function isSecretName(name: string, { secrets }: Pick<Settings, 'secrets'>): boolean {
  if (secrets.includes(name)) return true;
  return (secretWords.test(name) || lastWords.test(splitWords(name))) && !ordinary.includes(name);
}

/** `ghPat` becomes `gh_pat`. */
function splitWords(name: string): string {
  return name.replace(/([a-z\d])(?=[A-Z])/g, '$1_').toLowerCase();
}

function secretsOf(name: string, value: string, settings: Pick<Settings, 'secrets'>): readonly Secret[] {
  const values = [...(isSecretName(name, settings) ? [value.trim()] : []), ...passwordsOf(value)];
  const long = values.filter((each) => each.length >= SHORTEST_SECRET);
  return long.flatMap(spellings).map((spelling) => ({ value: toBytes(spelling), mask: toBytes(`[${name}]`) }));
}

const passwordInUrl = /^[a-z][a-z\d+.-]*:\/\/[^/?#\s]*?:([^/?#\s]+)@/i;

/** `jdbc:…?password=…`, `Server=…;Password=…`, `host=… password='…'` */
const passwordInSettings =
  /(?:^|[?&;\s])(?:password|passwd|pwd|pass|secret|token|api_?key|access_?token|accountkey|sharedaccesskey)\s*=\s*(?:'([^']+)'|"([^"]+)"|([^&;\s'"]+))/gi;

/** The passwords in a value, whatever the name of its variable. */
function passwordsOf(value: string): readonly string[] {
  const inUrl = passwordInUrl.exec(value)?.[1];
  const inSettings = Array.from(value.matchAll(passwordInSettings), ([, one, other, plain]) => one ?? other ?? plain);
  return [inUrl, ...inSettings].flatMap((each) => (each === undefined ? [] : [each, decode(each)]));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function toBytes(text: string): string {
  return Buffer.from(text).toString('latin1');
}
