/** Spellings of a value in output: as it is, and as programs write it into URLs, JSON, HTML, shells and Python. */
export function spellings(value: string): readonly string[] {
  const all = [
    ...[value, ...inUrls(value), ...inJson(value), ...inHtml(value), ...inShells(value), inPythonBytes(value)],
    // A multi-line value on a terminal or in a mail.
    value.replace(/\r?\n/g, '\r\n'),
    ...inOtherCase(value),
  ];
  return [...new Set(all)];
}

/** As JavaScript encodes it; as PHP and Python do, which leave other characters unchanged; as forms do. */
function inUrls(value: string): readonly string[] {
  const encoded = encode(value);
  const strict = encoded.replace(/[!'()*]/g, (character) => `%${hex(character, 2).toUpperCase()}`);
  const withPlus = strict.replaceAll('%20', '+');
  const ofForm = new URLSearchParams([['', value]]).toString().slice(1);
  return [...[encoded, strict, withPlus, ofForm], ...[withPlus.replaceAll('~', '%7E'), strict.replaceAll('%2F', '/')]];
}

/** As JavaScript writes it; with `\u00e4` for ä, as Python does; also with `\/` for a slash, as PHP does. */
function inJson(value: string): readonly string[] {
  const plain = JSON.stringify(value).slice(1, -1);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII stays
  const ascii = plain.replace(/[^\x00-\x7f]/g, (character) => `\\u${hex(character, 4)}`);
  return [plain, ascii, ...[plain, ascii].map((text) => text.replaceAll('/', '\\/'))];
}

const apostrophes = ["'", '&#39;', '&#039;', '&#x27;', '&apos;'];

/** Between tags, quotes may stay unchanged. */
function inHtml(value: string): readonly string[] {
  const text = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return [text, text.replaceAll('"', '&quot;'), text.replaceAll('"', '&#34;')].flatMap((quoted) =>
    apostrophes.map((apostrophe) => quoted.replaceAll("'", apostrophe)),
  );
}

/** Within single quotes, as `set -x` and most shells quote it, and Python; with backslashes, as `printf %q` does. */
function inShells(value: string): readonly string[] {
  return [
    value.replaceAll("'", String.raw`'\''`),
    value.replaceAll("'", `'"'"'`),
    value.replace(/[^\w@%+=:,./-]/g, (character) => (character > '\x7f' ? character : `\\${character}`)),
    value.replace(/["$`\\]/g, String.raw`\$&`),
  ];
}

/** `b'p\xc3\xa4ss'` */
function inPythonBytes(value: string): string {
  const escaped = value
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t');
  return Array.from(Buffer.from(escaped), (byte) =>
    byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`,
  ).join('');
}

const SHORTEST_CODE = 8;

/** Changes the case of codes only, such as `a1b2c3d4`: a password in upper case may be an ordinary word. */
function inOtherCase(value: string): readonly string[] {
  const isCode = value.length >= SHORTEST_CODE && /\d/.test(value) && /[a-z]/i.test(value);
  return isCode ? [value.toUpperCase(), value.toLowerCase()] : [];
}

function hex(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, '0');
}

/** A value of the environment may be invalid UTF-16. */
function encode(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text;
  }
}
