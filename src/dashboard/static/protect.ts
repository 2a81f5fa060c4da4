import { randomBytes } from 'node:crypto';
import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../system/base/errors.ts';
import { readPlainFile, replaceFile } from '../../system/base/plain-file.ts';
import { findWebRoot } from '../../system/place/web-exposure.ts';

export interface ProtectRequest {
  /** The report. */
  readonly file: string;
  /** `login`: with a password; `deny`: nobody, unless there is a login already; `none`: anybody. */
  readonly by: 'login' | 'deny' | 'none';
}

/** The result of the protection, for people. */
export interface Protection {
  /** Printed once: only its hash is kept. Null: none was made. */
  readonly login: { readonly user: string; readonly password: string } | null;
  /** One line on the changes that were made; null: everything was protected before. */
  readonly done: string | null;
  /** Why somebody else may read it; null: as far as we know nobody can. */
  readonly warning: string | null;
}

const MARK = '# Made by `npx folder-runner report --html`.';
const USER = 'runner';
/** About 50 ms of a processor for each look of the server at a password. */
const ROUNDS = 10;

/**
 * Sees to it that Apache and LiteSpeed hand the report out only to whom it is for, by files beside it: they apply to
 * the report alone. A file that somebody else wrote is never changed.
 */
export async function protectReport({ file, by }: ProtectRequest): Promise<Protection> {
  if (by === 'none') return { login: null, done: null, warning: null };
  const place = { file: join(realpathSync(dirname(file)), basename(file)) };
  const access = join(dirname(place.file), '.htaccess');
  const found = readAccess(access);
  if (found === null || (found.startsWith(MARK) && !found.includes(filesOf(place.file)))) {
    return { login: null, done: null, warning: describeForeign(access, place.file) };
  }
  const warning = describeUnread(place.file);
  const hasLogin = found.includes('Require valid-user');
  if (found !== '' && (by === 'deny' || hasLogin)) return { login: null, done: null, warning };
  if (by === 'deny') {
    replaceFile(access, denyAll(place.file), 0o644);
    return {
      login: null,
      done: `${access} lets nobody read it: \`npx folder-runner report --html ${file} --protect\` makes a login`,
      warning,
    };
  }
  const password = randomBytes(15).toString('base64url');
  replaceFile(passwordsOf(place.file), `${USER}:${await hashOf(password)}\n`, 0o644);
  replaceFile(access, askLogin(place.file), 0o644);
  return { login: { user: USER, password }, done: `${access} asks for a login`, warning };
}

/** '': there is none; null: there is one that is somebody else's, or no file. */
function readAccess(path: string): string | null {
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return '';
    const text = lstatSync(path).isFile() ? readPlainFile(path) : '';
    return text.startsWith(MARK) ? text : null;
  } catch (error) {
    if (errorCode(error) === 'EACCES') return null;
    throw error;
  }
}

/** Apache knows bcrypt by the name that PHP gave it. */
async function hashOf(password: string): Promise<string> {
  const { hash } = await import('bcryptjs');
  return (await hash(password, ROUNDS)).replace(/^\$2[ab]\$/, '$2y$');
}

const passwordsOf = (file: string): string => join(dirname(file), '.htpasswd-runner');

/** As a word of Apache's settings. */
const quoted = (text: string): string => `"${text.replace(/["\\]/g, '\\$&')}"`;

const filesOf = (file: string): string => `<Files ${quoted(basename(file))}>`;

const askLogin = (file: string): string => `${MARK}\n${linesOfLogin(file)}\n`;

function linesOfLogin(file: string): string {
  const lines = [
    'AuthType Basic',
    'AuthName "runner"',
    `AuthUserFile ${quoted(passwordsOf(file))}`,
    'Require valid-user',
  ];
  return `${filesOf(file)}\n${lines.map((line) => `  ${line}\n`).join('')}</Files>`;
}

function denyAll(file: string): string {
  return [
    MARK,
    '# Nobody may read the report until you say who. For a login, call it with --protect; or let your own address in:',
    '#   Require ip 203.0.113.7',
    `${filesOf(file)}\n  Require all denied\n</Files>\n`,
  ].join('\n');
}

function describeForeign(access: string, file: string): string {
  return (
    `${access} is yours and stays as it is: unless it asks for a login, anybody may read ${file}. Add these lines to ` +
    `it, and make the password with \`htpasswd -c -B ${passwordsOf(file)} ${USER}\`:\n${linesOfLogin(file)}`
  );
}

/** Which of these is there tells what serves the files: nginx and Caddy read no .htaccess. */
const servers = {
  reading: ['/etc/apache2', '/etc/httpd', '/usr/local/apache', '/usr/local/apache2', '/usr/local/lsws'],
  others: { nginx: '/etc/nginx', Caddy: '/etc/caddy' },
};

/**
 * Why the files beside a report may have no effect; null: they have, as far as can be seen.
 *
 * @param exists for tests
 */
export function describeUnread(file: string, exists: (path: string) => boolean = existsSync): string | null {
  const [other] = Object.entries(servers.others).find(([, path]) => exists(path)) ?? [];
  if (other === undefined || servers.reading.some(exists)) return null;
  return (
    `${other} seems to be the web server here, which reads no .htaccess: anybody may read ${file}. Ask for a login in ` +
    "the server's own settings, or write the report to a folder that it does not serve."
  );
}

/** Whether a web server probably hands out what is in the folder of this file. */
export function isServed(file: string): boolean {
  return findWebRoot(dirname(file)) !== null;
}
