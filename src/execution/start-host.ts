import { dirname, join } from 'node:path';
import { HOST_VARIABLE, type HostOptions } from '../child/handler-contract.ts';
import { buildNodeCommand } from './command.ts';
import { buildEnvironment } from './environment.ts';
import { type HandlerRequest, toRunRequest } from './handler-request.ts';
import { runFilesOf } from './run-files.ts';
import { type StartedProcess, type StartFailure, startCommand } from './start-process.ts';
import type { WarmFiles } from './warm-files.ts';

/** Starts the process that calls handlers. By its environment the run is found that it begins with. */
export async function startHost(
  request: HandlerRequest,
  files: WarmFiles,
): Promise<StartedProcess | StartFailure> {
  const { state, root, script, runId } = request;
  const { output, temporary, name } = files;
  const options: HostOptions = { root, cacheFolder: state.cache, output, temporary };
  const environment = buildEnvironment(toRunRequest(request), {
    ...runFilesOf(state, runId),
    temporary,
  });
  const hostPath = join(dirname(request.probePath), 'handler-host.cjs');
  const command = buildNodeCommand(script.options.memoryBytes ?? null, hostPath);
  return await startCommand(request, command, {
    env: { ...environment, RUNNER_CHILD: name, [HOST_VARIABLE]: JSON.stringify(options) },
    stdio: ['ignore', files.appendFd, files.appendFd, files.fd, 'pipe'],
  });
}

/** What a process is given at its start, once for all: handlers that want the same can share it. */
export function kindOf({ script, root, state }: HandlerRequest): string {
  const { memoryBytes, nice, env } = script.options;
  return `${memoryBytes} ${nice} ${env} ${root} ${state.path}`;
}
