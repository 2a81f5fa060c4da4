import { closeSync } from 'node:fs';
import { HOST_VARIABLE, type HostOptions } from './handler-contract.ts';
import { HandlerServer } from './handler-server.ts';
import { SIGN_OF_LIFE_FD } from './probe-contract.ts';
import { installTypeScript } from './typescript-hooks.ts';

const variable = process.env[HOST_VARIABLE] as string;
delete process.env[HOST_VARIABLE];
closeSync(SIGN_OF_LIFE_FD);
const options = JSON.parse(variable) as HostOptions;
installTypeScript(options.cacheFolder);
new HandlerServer(options);
