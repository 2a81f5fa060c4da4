import { Command } from 'commander';
import { UsageError } from '../../system/base/errors.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { print, rootOf } from '../shared/open.ts';

interface WebOptions extends CommonOptions {
  readonly host: string;
  readonly port: string;
}

const EXAMPLES = `
Examples:
  runner web               on this machine: http://127.0.0.1:8787/
  runner web --port 0      any port that is free`;

/** `runner web`: the dashboard, until it is stopped. */
export function webCommand(context: CommandContext): Command {
  const command = new Command('web');
  return command
    .description('serve the dashboard and its REST API until Ctrl-C')
    .option('--host <address>', 'the address to listen on', '127.0.0.1')
    .option('--port <number>', 'the port; 0: any that is free', '8787')
    .addHelpText('after', EXAMPLES)
    .action(() => serve(context, command.optsWithGlobals<WebOptions>()));
}

async function serve(context: CommandContext, options: WebOptions): Promise<void> {
  const root = rootOf(context, options.root);
  const { startServer } = await import('../../dashboard/server.ts');
  const { env, version, now, distFolder } = context;
  const site = { root, env, version, now };
  const server = await startServer({ site, host: options.host, port: readPort(options.port), distFolder });
  await print(context, `${server.url}\n`);
  await new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, resolve);
  });
  await server.close();
}

function readPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
  if (port >= 0 && port <= 65_535) return port;
  throw new UsageError(`--port expects a number from 0 to 65535, found ${JSON.stringify(text)}.`);
}
