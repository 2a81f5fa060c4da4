import { closeSync } from 'node:fs';
import { callDefault } from './call-default.ts';
import { callIsolatedHandler } from './call-isolated-handler.ts';
import { PROBE_VARIABLE, type ProbeOptions, SIGN_OF_LIFE_FD } from './probe-contract.ts';
import { recordEnd } from './record-end.ts';
import { installTypeScript } from './typescript-hooks.ts';

// Loaded into a Node script before it starts. Whatever the script starts itself knows nothing of it:
// workers load it again, whatever is done here, and find no variable; forks go by `execArgv`.
const variable = process.env[PROBE_VARIABLE];
if (variable !== undefined) {
  delete process.env[PROBE_VARIABLE];
  forgetArgument(process.execArgv);
  const options = JSON.parse(variable) as ProbeOptions;
  closeSync(SIGN_OF_LIFE_FD);
  installTypeScript(options.cacheFolder);
  join(options);
}

function join(options: ProbeOptions): void {
  const { resultPath, scriptPath } = options;
  if (options.isHandler) {
    const { unsettled, end } = callIsolatedHandler(scriptPath);
    recordEnd(resultPath, unsettled, end);
  } else {
    recordEnd(resultPath, options.exportsNothing ? () => null : callDefault(options));
  }
}

function forgetArgument(args: string[]): void {
  const index = args.indexOf(__filename);
  if (index > 0) args.splice(index - 1, 2);
}
