import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../../config/usage-error.ts';
import { type Check, type Finding, ok, problem } from './finding.ts';
import { splitCure } from './split-cure.ts';

const names = ['runner.config.ts', 'runner.config.js', 'runner.config.mjs', 'runner.config.json'];

export const checkSettings: Check = {
  name: 'settings',
  run: async ({ root, settings }) => {
    const name = names.find((each) => existsSync(join(root, each)));
    try {
      await settings();
      return [ok(name === undefined ? 'none: the defaults' : `${name} is right`)];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      return error.message.split('\n').map((line) => describe(line, name ?? 'the settings'));
    }
  },
};

function describe(line: string, name: string): Finding {
  // A file that others could have written: the sentence itself says how to close it.
  if (line.includes('allow it with')) return problem(...splitCure(line));
  return problem(
    line,
    `Correct it in ${name}: until then no script runs; docs/options.md has every setting.`,
  );
}
