import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findSecrets, type Masker, maskSecrets, noteSecret } from '../../../src/execution/secrets.ts';
import { createMasker } from '../../support/run.ts';
import { tries } from '../../support/tries.ts';

const makeMasker = (env: Record<string, string>, secrets: readonly string[] = []): Masker =>
  createMasker({ env, secrets }, {});

const mask = (env: Record<string, string>, text: string, secrets?: readonly string[]): string =>
  makeMasker(env, secrets).text(text);

describe('the value of a variable is masked', () => {
  test.each([
    'API_KEY',
    'AWS_SECRET_ACCESS_KEY',
    'SECRET_KEY_BASE',
    'SHOP_TOKEN',
    'shop_token',
    'shopToken',
    'TOKENS',
    'TOKEN_2',
    'SECRET',
    'DB_PASSWORD',
    'MYSQL_PWD',
    'PGPASSWORD',
    'DB_PASS',
    'PASSWD',
    'KEY_PASSPHRASE',
    'GOOGLE_CREDENTIALS',
    'DATABASE_URL',
    'SENTRY_DSN',
    ...['SLACK_WEBHOOK', 'SLACK_WEBHOOK_URL', 'SESSION_COOKIE', 'BASIC_AUTH', 'GH_PAT', 'ghPat', 'CARD_PIN', 'PIN_2'],
    ...['PASSWORD_SALT', 'WEBHOOK_SIGNATURE', 'APP_PRIVATE', 'AUTHORIZATION', 'COOKIES', 'DB_PW', 'CONNECTION_STRING'],
  ])('of %s', (name) => {
    expect(mask({ [name]: 'hunter2hunter2' }, 'a hunter2hunter2 b')).toBe(`a [${name}] b`);
  });

  test.each([
    ...['PWD', 'OLDPWD', 'HOME', 'SITE_URL', 'KEYBOARD', 'COMPASSION', 'LANG', 'PATH', 'PATTERN', 'AUTHOR', 'PINNED'],
    ...['MANPATH', 'COMPAT', 'SPIN', 'SSH_AUTH_SOCK', 'SESSION_DRIVER', 'XDG_SESSION_TYPE', 'COOKIE_DOMAIN', 'SALTED'],
    ...['PRIVATE_NETWORK', 'DESKTOP_SESSION', 'SIGNATURE_FILE'],
  ])('but not of %s', (name) => {
    expect(mask({ [name]: '/home/me/site' }, 'in /home/me/site')).toBe('in /home/me/site');
  });

  test('of names in the settings, wherever the variable is set', () => {
    const settings = { env: {}, secrets: ['SHOP_LOGIN'] };
    const { text } = createMasker(settings, { SHOP_LOGIN: 'alice@example.org', HOME: '/home/me' });
    expect(text('alice@example.org in /home/me')).toBe('[SHOP_LOGIN] in /home/me');
  });

  test('by default, of this process’s own environment', () => {
    process.env.MASK_TEST_TOKEN = 'abcdef123456';
    try {
      expect(createMasker({ env: {}, secrets: [] }).text('abcdef123456')).toBe('[MASK_TEST_TOKEN]');
    } finally {
      delete process.env.MASK_TEST_TOKEN;
    }
  });
});

test('of five characters it is not: text would be shredded', () => {
  expect(mask({ PIN_TOKEN: '12345', TOKEN: '123456' }, '12345 123456')).toBe('12345 [TOKEN]');
});

test('white space around a value is no part of it', () => {
  expect(mask({ TOKEN: ' abcdef12\n' }, 'abcdef12')).toBe('[TOKEN]');
});

test('a value is masked as it stands in URLs, in JSON and in what is printed of an object', () => {
  const value = 'p&ss "wörd"\nline';
  const masked = [encodeURIComponent(value), JSON.stringify({ value }), `${value}!`];
  expect(masked.map((text) => mask({ PASSWORD: value }, text))).toEqual([
    '[PASSWORD]',
    '{"value":"[PASSWORD]"}',
    '[PASSWORD]!',
  ]);
});

test.each([
  ['PHP’s json_encode', String.raw`p\/ss (w\u00f6rd)!~`],
  ['Python’s json.dumps', String.raw`p/ss (w\u00f6rd)!~`],
  ['PHP’s JSON_UNESCAPED_UNICODE', String.raw`p\/ss (wörd)!~`],
  ['PHP’s rawurlencode', 'p%2Fss%20%28w%C3%B6rd%29%21~'],
  ['PHP’s urlencode', 'p%2Fss+%28w%C3%B6rd%29%21%7E'],
  ['Python’s quote', 'p/ss%20%28w%C3%B6rd%29%21~'],
  ['Python’s quote_plus', 'p%2Fss+%28w%C3%B6rd%29%21~'],
  ['a form', new URLSearchParams({ a: 'p/ss (wörd)!~' }).toString().slice(2)],
  ['Python’s bytes', String.raw`p/ss (w\xc3\xb6rd)!~`],
  ['printf %q', String.raw`p/ss\ \(wörd\)\!\~`],
])('a value is masked as it is written by %s', (_, written) => {
  expect(mask({ PASSWORD: 'p/ss (wörd)!~' }, `<${written}>`)).toBe('<[PASSWORD]>');
});

test.each([
  ['HTML', `a&amp;b&lt;c&gt;&quot;d&#39;e`],
  ['PHP’s htmlspecialchars', `a&amp;b&lt;c&gt;&quot;d&#039;e`],
  ['Python’s html.escape', `a&amp;b&lt;c&gt;&quot;d&#x27;e`],
  ['text between tags', `a&amp;b&lt;c&gt;"d'e`],
  ['a shell', String.raw`a&b<c>"d'\''e`],
  ['Python’s shlex.quote', `a&b<c>"d'"'"'e`],
])('a value with quotes is masked as it is written in %s', (_, written) => {
  expect(mask({ PASSWORD: `a&b<c>"d'e` }, `<${written}>`)).toBe('<[PASSWORD]>');
});

test('a code is masked in upper and lower case, a word as it is', () => {
  expect(mask({ TOKEN: 'a1b2C3d4' }, 'A1B2C3D4 a1b2c3d4')).toBe('[TOKEN] [TOKEN]');
  expect(mask({ TOKEN: 'production' }, 'PRODUCTION production')).toBe('PRODUCTION [TOKEN]');
});

test('several lines are masked with the line ends of terminals, too', () => {
  expect(mask({ KEY: 'first line\nsecond' }, '<first line\r\nsecond>')).toBe('<[KEY]>');
});

test.each([
  ['colours', 'abc\x1b[1;31mdef\x1b[0mgh!', '[TOKEN]!'],
  ['a link', '\x1b]8;;http://a\x1b\\abcdefgh\x1b]8;;\x07 !', '\x1b]8;;http://a\x1b\\[TOKEN]\x1b]8;;\x07 !'],
  [
    'a colour for each letter',
    Array.from('abcdefgh', (letter) => `\x1b[38;5;9m${letter}`).join(''),
    '\x1b[38;5;9m[TOKEN]',
  ],
  ['nothing that matters', 'ab\x1b[31mc abcdefgh', 'ab\x1b[31mc [TOKEN]'],
])('a value is masked through sequences of terminals: %s', (_, text, masked) => {
  expect(mask({ TOKEN: 'abcdefgh' }, text)).toBe(masked);
});

describe('a secret is masked by its shape, though no variable holds it', () => {
  const letters = (count: number): string => 'aB3dE6gH9jK2'.repeat(count).slice(0, count);
  const pem = `-----BEGIN RSA PRIVATE KEY-----\n${letters(64)}\n${letters(40)}==\n-----END RSA PRIVATE KEY-----`;

  test.each([
    ['dashboard token', `frt_${letters(43)}`],
    ['GitHub token', `ghp_${letters(36)}`],
    ['GitHub token', `github_pat_${letters(22)}_${letters(59)}`],
    ['Slack token', 'xoxb-1234567890-abcdefghij'],
    ['AWS key', 'AKIAIOSFODNN7EXAMPLE'],
    ['Stripe key', `sk_live_${letters(24)}`],
    ['JWT', `eyJ${letters(20)}.eyJ${letters(40)}.${letters(43)}`],
    ['private key', pem],
    ['private key', pem.replaceAll('\n', '\r\n')],
    ['private key', pem.replaceAll('\n', '\\n')],
  ])('%s', (name, secret) => {
    expect(mask({}, `<${secret}>`)).toBe(`<[${name}]>`);
    expect(mask({ GH_TOKEN: secret }, `<${secret}>`)).toBe('<[GH_TOKEN]>');
  });

  test.each([
    'frt_short',
    'ghp_1',
    'AKIA',
    'sk_live_',
    'eyJ.eyJ.',
    'eyJhbGciOiJIUzI1NiJ9',
    'xoxb-',
    'npm_config_cache',
  ])('but not %s', (text) => {
    expect(mask({}, text)).toBe(text);
  });

  test.each([
    ['lines of a log', 'INFO request 17 handled in 12 ms by worker 3\n'],
    ['coloured lines', '\x1b[32mINFO\x1b[0m request 17 handled\n'],
    ['beginnings of keys', '-----BEGIN PRIVATE KEY-----'],
    ['beginnings of tokens', 'eyJ'],
    ['halves of tokens', `eyJ${'a'.repeat(500)}.`],
    ['beginnings of titles', '\x1b]'],
    ['ESC alone', '\x1b'],
    ['sequences of two bytes', '\x1bX'],
    ['titles without an end', `\x1b]${'a'.repeat(1023)}`],
    ['colours without an end', `\x1b[${'1'.repeat(64)}`],
    ['a secret in each line', `\x1b[31mabc\x1b[0mdefgh ${'x'.repeat(200)}\n`],
  ])('and ten times as much output takes about ten times as long: %s', (_, line) => {
    const { bytes } = makeMasker({ TOKEN: 'abcdefgh' });
    const cost = (size: number): number => {
      const output = Buffer.from(line.repeat(Math.ceil(size / line.length)));
      const tries = Array.from({ length: 3 }, () => {
        const startedAt = process.cpuUsage();
        bytes(output);
        const { user, system } = process.cpuUsage(startedAt);
        return user + system;
      });
      return Math.min(...tries);
    };
    // Also of what takes hardly any time, where one garbage collection would be a multiple of it.
    expect(cost(5e6)).toBeLessThan(15 * cost(5e5) + 100_000);
  });
});

test.each([
  ['jdbc:mysql://host/shop?user=me&password=hunter2&ssl=true', 'hunter2'],
  ['Server=db;User Id=me;Password=hunter2;', 'hunter2'],
  [`host=db password='hunter 2' user=me`, 'hunter 2'],
])('the password in %s is masked whatever the variable is called', (value, password) => {
  expect(mask({ JDBC: value }, `with ${password} as me`)).toBe('with [JDBC] as me');
});

describe('the password in a URL', () => {
  test('is masked whatever the variable is called', () => {
    const env = { CACHE: 'redis://me:s3cret%20word@cache.example.org:6379/0' };
    expect(mask(env, 'AUTH s3cret word at cache.example.org')).toBe('AUTH [CACHE] at cache.example.org');
    expect(mask(env, 'redis://me:s3cret%20word@cache.example.org:6379/0')).toBe(
      'redis://me:[CACHE]@cache.example.org:6379/0',
    );
  });

  test('goes with the whole URL where the name is secret', () => {
    const env = { DATABASE_URL: 'mysql://me:hunter2@db/shop' };
    expect(mask(env, 'cannot reach mysql://me:hunter2@db/shop (hunter2)')).toBe(
      'cannot reach [DATABASE_URL] ([DATABASE_URL])',
    );
  });

  test.each([
    'https://example.org/a:b@c',
    'https://user@example.org',
    'http://[::1]:8080/',
    '://:@',
    'x://:%E0%A4%A@h',
  ])('is not found in %s where there is none', (url) => {
    expect(mask({ SITE_URL: url, OTHER_URL: 'b@c' }, `${url} user example.org`)).toContain('user');
  });
});

test('the longer of two that begin alike is masked as a whole', () => {
  expect(mask({ A_KEY: 'abcdef', B_KEY: 'abcdefgh' }, 'abcdefgh abcdef')).toBe('[B_KEY] [A_KEY]');
});

test('characters that mean something in a pattern mean nothing', () => {
  expect(mask({ A_KEY: '.*+?^${}()|[]\\/', B_KEY: '$&$1$$' }, 'x.*+?^${}()|[]\\/$&$1$$xxxxxxx')).toBe(
    'x[A_KEY][B_KEY]xxxxxxx',
  );
});

test('text without secrets stays as it is, lone surrogates too', () => {
  expect(mask({ TOKEN: 'abcdef' }, 'ä\ud800b')).toBe('ä\ud800b');
});

test('without secrets nothing is changed, nor copied', () => {
  const masker = makeMasker({ HOME: '/root' });
  const bytes = Buffer.from('abc');
  expect(masker.bytes(bytes)).toBe(bytes);
});

test('bytes that are no text stay as they are around a secret', () => {
  const bytes = (text: string) => Buffer.from(text, 'latin1');
  const { bytes: maskBytes } = makeMasker({ TOKEN: 'gehe1m' });
  expect(maskBytes(bytes('\xff\xfegehe1m\x00\xc3'))).toEqual(bytes('\xff\xfe[TOKEN]\x00\xc3'));
});

describe('where text was cut', () => {
  const { bytes } = makeMasker({ TOKEN: 'abcdefgh', OTHER_KEY: 'xyzabcd' });
  const cut = (text: string, edges: { start?: boolean; end?: boolean }) => bytes(Buffer.from(text), edges).toString();

  test('what is left of a secret is masked', () => {
    expect(cut('… abcd', { end: true })).toBe('… [TOKEN]');
    expect(cut('… abcdefg', { end: true })).toBe('… [TOKEN]');
    expect(cut('efgh …', { start: true })).toBe('[TOKEN] …');
    expect(cut('abcd … abcd', { start: true, end: true })).toBe('[OTHER_KEY] … [TOKEN]');
    expect(cut('abcdefgh', { start: true, end: true })).toBe('[TOKEN]');
  });

  test('but not three characters of it, nor anything in the midst', () => {
    expect(cut('… abc', { end: true })).toBe('… abc');
    expect(cut('fgh …', { start: true })).toBe('fgh …');
    expect(cut('… abcdefg …', { start: true, end: true })).toBe('… abcdefg …');
    expect(cut('… abcdefg', {})).toBe('… abcdefg');
  });
});

describe('in a stream', () => {
  const env = { A_TOKEN: 'abcdef', B_TOKEN: 'abcdefgh', C_KEY: 'uvwxyz' };
  const masker = makeMasker(env);

  async function* inPieces(text: string, sizes: readonly number[]): AsyncGenerator<Buffer> {
    let rest = text;
    for (const size of [...sizes, text.length]) {
      yield Buffer.from(rest.slice(0, size));
      rest = rest.slice(size);
    }
  }

  async function streamed(text: string, sizes: readonly number[], edges = {}): Promise<string> {
    const pieces: Buffer[] = [];
    for await (const piece of masker.stream(inPieces(text, sizes), edges)) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  }

  test('a secret spread over two pieces is masked', async () => {
    expect(await streamed('xx abcdef yy', [6])).toBe('xx [A_TOKEN] yy');
    expect(await streamed('abcdefgh', [6])).toBe('[B_TOKEN]');
    expect(await streamed('xx abcd', [4, 1], { end: true })).toBe('xx [B_TOKEN]');
    expect(await streamed('cdefgh yyyyyyyyyy', [2, 1, 1], { start: true })).toBe('[B_TOKEN] yyyyyyyyyy');
  });

  test('it is masked as in one piece, wherever it is divided', async () => {
    const word = fc.constantFrom('abcdef', 'abcdefgh', 'uvwxyz', 'uvw', 'ab', 'cdef', 'gh', ' ', '\n');
    const text = fc.array(word, { maxLength: 12 }).map((words) => words.join(''));
    const sizes = fc.array(fc.nat({ max: 9 }), { maxLength: 20 });
    const edges = fc.record({ start: fc.boolean(), end: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(text, sizes, edges, async (whole, pieces, cut) => {
        const expected = masker.bytes(Buffer.from(whole), cut).toString();
        expect(await streamed(whole, pieces, cut)).toBe(expected);
      }),
      { numRuns: tries(500) },
    );
  });
});

describe('by a note of them alone', () => {
  const byNote = (env: Record<string, string>): Masker => {
    const noted = JSON.stringify(findSecrets({ env, secrets: [] }, {}).map(noteSecret));
    return maskSecrets([], JSON.parse(noted));
  };

  test('secrets are found in all their spellings, and the note has none of them', () => {
    const env = { PASSWORD: 'p/ss (wörd)!~', CACHE: 'redis://me:s3cret%20word@host/0' };
    const text = [env.PASSWORD, encodeURIComponent(env.PASSWORD), String.raw`p\/ss (w\u00f6rd)!~`, 's3cret word'].join(
      ' ',
    );
    expect(byNote(env).text(`<${text}>`)).toBe('<[PASSWORD] [PASSWORD] [PASSWORD] [CACHE]>');
    expect(JSON.stringify(findSecrets({ env, secrets: [] }, {}).map(noteSecret))).not.toMatch(/ss|rd|s3c/);
  });

  test('the same is masked as by their values, in one piece or in many', async () => {
    const env = { A_TOKEN: 'abcdef', B_TOKEN: 'abcdefgh', C_KEY: 'uvwxyz', D_KEY: 'yzabcdefg' };
    const [known, noted] = [makeMasker(env), byNote(env)];
    const word = fc.constantFrom('abcdef', 'abcdefgh', 'uvwxyz', 'uvwx', 'yz', 'ab', 'cdefg', 'h', ' ', 'ö');
    const text = fc.array(word, { maxLength: 12 }).map((words) => words.join(''));
    const sizes = fc.array(fc.nat({ max: 9 }), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(text, sizes, async (whole, divided) => {
        expect(noted.text(whole)).toBe(known.text(whole));
        const bytes = Buffer.from(whole);
        const pieces: Buffer[] = [];
        let at = 0;
        for (const size of [...divided, bytes.length]) {
          pieces.push(bytes.subarray(at, at + size));
          at += size;
        }
        const masked: Buffer[] = [];
        for await (const piece of noted.stream(pieces)) masked.push(piece);
        expect(Buffer.concat(masked).toString()).toBe(known.text(whole));
      }),
      { numRuns: tries(500) },
    );
  });

  test('beside secrets that are known, of which the longer one counts', () => {
    const secrets = findSecrets({ env: { A_KEY: 'abcdef', C_KEY: 'uvwxyz' }, secrets: [] }, {});
    const [noted] = findSecrets({ env: { B_KEY: 'abcdefgh' }, secrets: [] }, {}).map(noteSecret);
    const { text } = maskSecrets(secrets, noted === undefined ? [] : [noted]);
    expect(text('abcdefgh abcdef uvwxyz')).toBe('[B_KEY] [A_KEY] [C_KEY]');
  });

  test('in text without them nothing is taken for one', () => {
    const { bytes } = byNote(
      Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`KEY_${index}`, `secret-${index}`])),
    );
    const text = Buffer.from(Array.from({ length: 50_000 }, (_, index) => `line ${index} of a log\n`).join(''));
    expect(bytes(text)).toBe(text);
  });

  test('a part is masked with what stands around it', () => {
    for (const { part, reach } of [byNote({ TOKEN: 'abcdefgh' }), makeMasker({ TOKEN: 'abcdefgh' })]) {
      expect(reach).toBeGreaterThan(7);
      const found = (start: number, end: number) => part(Buffer.from('xx abcdefgh yy'), start, end).toString();
      expect([found(0, 5), found(5, 7), found(10, 14), found(11, 14), found(0, 3)]).toEqual([
        'xx [TOKEN]',
        '[TOKEN]',
        '[TOKEN] yy',
        ' yy',
        'xx ',
      ]);
    }
  });
});
