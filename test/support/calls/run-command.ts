import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import packageJson from '../../../package.json' with { type: 'json' };
import { engine } from '../engines/engines.ts';

export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Place {
  readonly cwd: string;
  /** All that the process gets, besides where its log is; nothing of the test's own environment. */
  readonly env: NodeJS.ProcessEnv;
  /** What it reads from stdin. */
  readonly input?: string;
}

/** The built command, as cron runs it: by full paths and in a bare environment. */
export function runCommand(args: readonly string[], place: Place): Ended {
  return runNode([commandPath, ...args], withCompileCache(place));
}

/** Whoever runs the tests does so on a terminal, or over ssh. */
export const byCron = { RUNNER_CALLED_BY: 'cron' };

const compileCache = new URL('../../../node_modules/.cache/compiled', import.meta.url).pathname;

/** As on a host where it has run before: in each test's new home Node would compile it all again. */
export function withCompileCache(place: Place): Place {
  return { ...place, env: { XDG_CACHE_HOME: compileCache, ...place.env } };
}

/** For TypeScript run by Node itself, which takes four times as long where each file has to be stripped of its types. */
export const nodeCache = { NODE_COMPILE_CACHE: join(compileCache, 'node') };

/** A script run by this Node, without the runner around it. */
export function runNode(args: readonly string[], { cwd, env, input = '' }: Place): Ended {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd,
    env: { ...byCron, ...engine.environment(), ...env },
    input,
    encoding: 'utf8',
    timeout: 50_000,
  });
  return { status, stdout, stderr };
}

export const commandPath = new URL('../../../dist/bin.cjs', import.meta.url).pathname;

/** What is loaded into Node scripts; the process for handlers starts from a file beside it. */
export const probePath = join(dirname(commandPath), `probe-${packageJson.version}.cjs`);
