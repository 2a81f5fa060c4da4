import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { UsageError } from './usage-error.ts';
import { waitForSettings } from './wait-for-settings.ts';

export interface ConfigFile {
  readonly name: string;
  readonly source: string;
  readonly content: unknown;
}

/** @throws {UsageError} naming the file and what keeps it from being read or run */
export async function readConfigFile(root: string, name: string): Promise<ConfigFile> {
  const path = join(root, name);
  try {
    const source = readFileSync(path, 'utf8').replace(/^\ufeff/, '');
    const content = name.endsWith('.json') ? JSON.parse(source) : await importDefault(path, name);
    return { name, source, content };
  } catch (error) {
    throw new UsageError(`${name} cannot be loaded: ${describeCause(error, name)}`, {
      cause: error,
    });
  }
}

async function importDefault(path: string, name: string): Promise<unknown> {
  const hooks = registerHooks({ load: loadByContent });
  try {
    const loading: Promise<{ readonly default?: unknown }> = import(pathToFileURL(path).href);
    const module = await waitForSettings(name, loading);
    if ('default' in module) return module.default;
    throw new Error('it has no default export; write `export default defineConfig({ … })`');
  } finally {
    hooks.deregister();
  }
}

type LoadHook = NonNullable<Parameters<typeof registerHooks>[0]['load']>;

/**
 * A package.json with `"type": "commonjs"`, as `npm init` writes it, makes Node refuse `export default`
 * in a .ts or .js file, and one without `type` makes it warn, which cron would mail.
 */
const loadByContent: LoadHook = (url, context, nextLoad) => {
  const format = moduleFormat(url);
  return nextLoad(url, format === undefined ? context : { ...context, format });
};

const moduleSyntax = /^[ \t]*(?:import\s*[\w$*{'"]|export\s)/m;

function moduleFormat(url: string): string | undefined {
  const isOwnScript = /^file:.*\.[jt]s$/.test(url) && !url.includes('/node_modules/');
  if (!isOwnScript || !moduleSyntax.test(readFileSync(fileURLToPath(url), 'utf8')))
    return undefined;
  return url.endsWith('.ts') ? 'module-typescript' : 'module';
}

function describeCause(error: unknown, file: string): string {
  if (!(error instanceof Error)) return `it threw ${String(error)}`;
  const cause = `${withoutSource(error.message).replace(/\s+/g, ' ').trim()}${placeIn(file, error)}`;
  if ('code' in error && error.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    return `${cause}; write it without enums, namespaces and parameter properties`;
  }
  return cause;
}

/** `JSON.parse` quotes what stands around its mistake, which may be a password. */
function withoutSource(message: string): string {
  return message.replace(/^(Unexpected token) .* is not valid JSON$/s, '$1: it is not valid JSON');
}

function placeIn(file: string, error: Error): string {
  const line = error.stack?.split(`${file}:`)[1]?.match(/^\d+/)?.[0];
  return line === undefined ? '' : ` (line ${line})`;
}
