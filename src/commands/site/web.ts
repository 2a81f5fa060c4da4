import { Command } from 'commander';
import { UsageError } from '../../system/base/errors.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { print, rootOf } from '../shared/open.ts';
import { tokenCommand } from './web-token.ts';

interface WebOptions extends CommonOptions {
  readonly host: string;
  readonly port: string;
  readonly url?: string;
  readonly login?: true;
}

const WEB_HELP = `
On this machine your own connections need no password: the kernel says that they are yours. Everybody else
logs in with a token. Keep it in \`--host 127.0.0.1\` and come through an SSH tunnel, or let the web server
pass requests on to it (\`--url\`).

Examples:
  runner web                                     on this machine: http://127.0.0.1:8787/
  ssh -L 8787:127.0.0.1:8787 me@example.org      on your own computer: brings it there
  runner web --port 0                            any port that is free
  runner web --url https://example.org/runner    behind the web server, which passes that path on
  runner web token add laptop --manage           make a token; \`runner web token --help\` for more`;

/** `runner web`: the dashboard, until it is stopped. */
export function webCommand(context: CommandContext): Command {
  const command = new Command('web');
  return command
    .description('serve the dashboard and its REST API until Ctrl-C')
    .option('--host <address>', 'the address to listen on', '127.0.0.1')
    .option('--port <number>', 'the port; 0: any that is free', '8787')
    .option('--url <address>', 'where a proxy or Passenger serves it: https://example.org/runner')
    .option('--login', 'also your own connections log in: print an address with a key')
    .addHelpText('after', WEB_HELP)
    .action(() => serve(context, command.optsWithGlobals<WebOptions>()))
    .addCommand(tokenCommand(context));
}

async function serve(context: CommandContext, options: WebOptions): Promise<void> {
  const root = rootOf(context, options.root);
  const port = readPort(options.port);
  const url = readUrl(options.url);
  const { startServer } = await import('../../dashboard/server.ts');
  const { env, version, now, distFolder } = context;
  const site = { root, env, version, now };
  const needsLogin = options.login === true;
  const server = await startServer({ site, host: options.host, port, url, needsLogin, distFolder });
  const signalled = new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, resolve);
  });
  const where = url === null || server.listensAt === null ? [] : [`It listens at ${server.listensAt}.`];
  await print(context, [server.url, ...where, ...server.notes].map((line) => `${line}\n`).join(''));
  await signalled;
  await server.close();
}

function readPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
  if (port >= 0 && port <= 65_535) return port;
  throw new UsageError(`--port expects a number from 0 to 65535, found ${JSON.stringify(text)}.`);
}

function readUrl(text: string | undefined): URL | null {
  if (text === undefined) return null;
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain = url !== null && url.username + url.password + url.search + url.hash === '';
  if (isPlain && /^https?:$/.test(url.protocol) && /^\/[\w./~-]*$/.test(url.pathname)) return url;
  throw new UsageError(
    `--url expects the address that a browser asks for, such as https://example.org/runner, found ${JSON.stringify(text)}.`,
  );
}
