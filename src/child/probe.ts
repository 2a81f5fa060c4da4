import { callDefault } from './call-default.ts';
import { PROBE_VARIABLE, type ProbeOptions } from './probe-contract.ts';
import { recordEnd } from './record-end.ts';
import { installTypeScript } from './typescript-hooks.ts';

// Loaded into a Node script before it starts. Whatever the script starts itself knows nothing of it.
const options = JSON.parse(process.env[PROBE_VARIABLE] ?? '') as ProbeOptions;
delete process.env[PROBE_VARIABLE];
installTypeScript(options.cacheFolder);
recordEnd(options.resultPath, callDefault(options));
