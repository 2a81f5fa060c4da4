import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { hashOf, makeToken } from '../../dashboard/access/tokens.ts';
import { type Door, socketOf } from '../../dashboard/listen.ts';
import type { RunningServer } from '../../dashboard/server.ts';
import { formatJson } from '../../report/json.ts';
import { createClock } from '../../report/text/clock.ts';
import { checkWritable } from '../../settings/access.ts';
import { apiTokensOf, type Token } from '../../store/statements/registers.ts';
import { type TokenPermission, tokenPermissions } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { shellWord } from '../../system/base/values.ts';
import { createStateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import { userName } from '../../system/process/user.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, rootOf, withLog, withWritableLog, withWritableLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner web`: the dashboard, until it is stopped. */
export async function serve(context: CommandContext, options: Given<'web'>): Promise<void> {
  const root = rootOf(context, options.root);
  const url = readUrl(options.url);
  const door = await chooseDoor(context, root, options);
  const { startServer } = await import('../../dashboard/server.ts');
  const { env, version, now, distFolder } = context;
  const site = { root, env, version, now };
  const server = await startServer({ site, door, url, needsLogin: options.login === true, distFolder });
  const signalled = new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, resolve);
  });
  await print(
    context,
    describeWay(server, door, url)
      .map((line) => `${line}\n`)
      .join(''),
  );
  await signalled;
  await server.close();
}

async function chooseDoor(context: CommandContext, root: string, options: Given<'web'>): Promise<Door> {
  const { socket, host, port, url, loader } = options;
  if (loader) return { kind: 'loader' };
  if (port !== undefined) {
    if (socket !== undefined) throw new UsageError('--socket and --port cannot be combined.');
    // Both are listened at, whichever a browser takes.
    return { kind: 'port', host: (host ?? 'localhost').replace(/^localhost$/i, '127.0.0.1'), port: readPort(port) };
  }
  if (host !== undefined) throw new UsageError('--host goes with --port: add --port 8787, or leave --host out.');
  // A web server runs as another user: what keeps others out there are tokens.
  const mode = url === undefined ? 0o600 : 0o666;
  if (socket !== undefined) return { kind: 'socket', path: resolve(context.cwd, socket), mode };
  const state = stateFolderOf(root);
  await checkWritable(root, state, context.env);
  createStateFolder(state);
  const path = socketOf(state);
  if (url !== undefined) {
    const cure = 'name one with --socket in a folder that it may enter';
    context.stderr.write(`Note: a web server that runs as another user cannot open ${path}; ${cure}.\n`);
  }
  return { kind: 'socket', path, mode };
}

function describeWay({ url, listensAt, notes }: RunningServer, door: Door, publicUrl: URL | null): string[] {
  if (publicUrl !== null) {
    const where = listensAt === null ? [] : [`It listens at ${listensAt}.`];
    return [url, ...where, ...notes];
  }
  if (door.kind !== 'socket') return [url, ...notes];
  return [
    `The dashboard listens at ${door.path}.`,
    'Only you can connect there. Run this on your own computer, with the name by which you log in to this machine:',
    `  ssh -N -L ${new URL(url).port}:${shellWord(door.path)} ${shellWord(`${userName('me')}@${hostname()}`)}`,
    'Then open there:',
    `  ${url}`,
    'For a browser on this machine: npx folder-runner web --port 8787',
    ...notes,
  ];
}

function readPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
  if (port >= 0 && port <= 65_535) return port;
  throw new UsageError(`--port must be a number from 0 to 65535, found ${JSON.stringify(text)}.`);
}

function readUrl(text: string | undefined): URL | null {
  if (text === undefined) return null;
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain = url !== null && url.username + url.password + url.search + url.hash === '';
  if (isPlain && /^https?:$/.test(url.protocol) && /^\/[\w./~-]*$/.test(url.pathname)) return url;
  throw new UsageError(
    '--url must be the address that a browser asks for, such as https://example.org/runner, found ' +
      `${JSON.stringify(text)}.`,
  );
}

const nameForm = /^[\w.@+-]{1,64}$/;

/** `runner web token add`: who may use the dashboard from elsewhere. */
export async function addToken(context: CommandContext, options: Given<'web token add'>): Promise<void> {
  const { name } = options;
  if (!nameForm.test(name)) {
    throw new UsageError(
      `A token's name has 1 to 64 letters, digits or any of . @ + - _ , such as laptop; found ${JSON.stringify(name)}.`,
    );
  }
  const createdAt = context.now();
  const expiresAt = options.expires === undefined ? null : createdAt + options.expires;
  const text = makeToken();
  const permission = choosePermission(options);
  const token = await withWritableLog(context, options.root, (store) =>
    store.transaction((session) =>
      apiTokensOf(session.statements).add({ name, hash: hashOf(text), permission, createdAt, expiresAt }),
    ),
  );
  if (token === null) {
    const cure = `choose another name, or end it with \`npx folder-runner web token revoke ${name}\``;
    throw new UsageError(`There is a token ${name} already; ${cure}.`);
  }
  if (options.json) return void context.stdout.write(formatJson({ ...toJson(token), token: text }));
  const clock = createClock(createdAt);
  const until = expiresAt === null ? 'until it is revoked' : `until ${clock.dateTime(expiresAt)} (${clock.zone})`;
  await print(context, `${text}\n\nThe token ${name} (${permission}) is valid ${until}. It is not shown again.\n`);
}

function choosePermission(
  options: { readonly [Permission in TokenPermission]?: boolean | undefined },
): TokenPermission {
  const [permission = 'read', other] = tokenPermissions.filter((each) => options[each]);
  if (other === undefined) return permission;
  throw new UsageError(`--${permission} and --${other} cannot be combined: --${other} includes --${permission}.`);
}

function toJson({ name, permission, createdAt, expiresAt, lastUsedAt }: Token) {
  const instant = (atMs: number | null) => (atMs === null ? null : new Date(atMs).toISOString());
  const lastUsed = instant(lastUsedAt)?.slice(0, 10) ?? null;
  return { name, permission, createdAt: instant(createdAt), expiresAt: instant(expiresAt), lastUsed };
}

/** `runner web token list`. */
export async function listTokens(context: CommandContext, { root, json }: Given<'web token list'>): Promise<void> {
  const tokens = await withLog(context, root, async ({ store }) =>
    store === null ? [] : await apiTokensOf(store.statements).list(),
  );
  if (json) return void context.stdout.write(formatJson({ tokens: tokens.map(toJson) }));
  if (tokens.length === 0) {
    return await print(context, 'There are no tokens. Make one with `npx folder-runner web token add <name>`.\n');
  }
  const width = Math.max(...tokens.map(({ name }) => name.length));
  const clock = createClock(context.now());
  await print(
    context,
    tokens.map((token) => `${describeToken(token, width, context.now(), clock.dateTime)}\n`).join(''),
  );
}

function describeToken(token: Token, width: number, nowMs: number, write: (atMs: number) => string): string {
  const { name, permission, expiresAt } = token;
  const used = toJson(token).lastUsed;
  const state = expiresAt !== null && expiresAt <= nowMs ? 'expired' : 'until';
  const end = expiresAt === null ? 'until it is revoked' : `${state} ${write(expiresAt)}`;
  return `${name.padEnd(width)}  ${permission.padEnd(6)}  ${used === null ? 'never used' : `used ${used}`}  ${end}`;
}

/** `runner web token revoke`. */
export async function revokeToken(
  context: CommandContext,
  { name, root, json }: Given<'web token revoke'>,
): Promise<void> {
  const found = await withWritableLogIfAny(context, root, async (store) => ({
    isRevoked: await apiTokensOf(store.statements).remove(name),
    names: (await apiTokensOf(store.statements).list()).map((token) => token.name),
  }));
  if (found?.isRevoked !== true) {
    const names = found?.names ?? [];
    const rest = names.length === 0 ? 'there are none' : `there are ${names.join(', ')}`;
    throw new UsageError(`There is no token ${JSON.stringify(name)}; ${rest}.`);
  }
  if (json) return void context.stdout.write(formatJson({ revoked: name }));
  await print(context, `The token ${name} is revoked; the sessions that it has opened have ended.\n`);
}
