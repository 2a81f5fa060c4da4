import type { Settings } from '../config/settings.ts';

/** What is not to be seen in what is kept of a run, and what stands there instead. */
export interface Secret {
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
export function findSecrets(
  settings: Pick<Settings, 'env' | 'secrets'>,
  environment: NodeJS.ProcessEnv,
): readonly Secret[] {
  const variables = [...Object.entries(environment), ...Object.entries(settings.env)];
  const secrets = variables.flatMap(([name, value = '']) => secretsOf(name, value, settings));
  return secrets.toSorted((one, other) => other.value.length - one.value.length);
}

function secretsOf(
  name: string,
  value: string,
  { secrets }: Pick<Settings, 'secrets'>,
): readonly Secret[] {
  const isSecret = secrets.includes(name) || (secretWords.test(name) && !folders.includes(name));
  const values = [...(isSecret ? [value.trim()] : []), ...passwordsOf(value)];
  return values
    .flatMap(spellings)
    .map((spelling) => ({ value: spelling, mask: toBytes(`[${name}]`) }));
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
  return [
    ...[encoded, strict, withPlus, ofForm],
    ...[withPlus.replaceAll('~', '%7E'), strict.replaceAll('%2F', '/')],
  ];
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
