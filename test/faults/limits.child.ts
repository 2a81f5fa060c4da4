import { execFileSync } from 'node:child_process';
import { runScript } from '../../src/execution/script/run-script.ts';
import { createMasker } from '../support/run.ts';

/**
 * Runs a script on a host with limits, and prints how it ended: takes them upon itself, by the
 * arguments for `prlimit`, once it has started. Whatever it starts inherits them.
 */
const [limits = '', request = '{}'] = process.argv.slice(2);
execFileSync('prlimit', ['--pid', String(process.pid), ...limits.split(' ')]);
const end = await runScript({
  ...JSON.parse(request),
  masker: createMasker({ env: {}, secrets: [] }, {}),
  stop: new AbortController().signal,
  onStarted: () => {},
});
process.stdout.write(JSON.stringify(end));
