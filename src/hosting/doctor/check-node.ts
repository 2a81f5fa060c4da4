import { findOwnNode } from '../../process/find-program.ts';
import { warnOfVanishingPath } from '../vanishing-path.ts';
import { type Check, type Finding, note, ok } from './finding.ts';
import { readLibc } from './libc.ts';

/** Whose Node it is, by its path. */
const sources: readonly (readonly [RegExp, string])[] = [
  [/\/nodevenv\//, "nodevenv, the panel's Node selector"],
  [/^\/opt\/alt\/alt-nodejs/, "CloudLinux's"],
  [/^\/opt\/cpanel\/ea-nodejs/, "cPanel's EasyApache"],
  [/^\/opt\/plesk\/node\//, "Plesk's"],
  [/\/\.nvm\//, 'nvm'],
  [/\/\.?fnm/, 'fnm'],
  [/\/\.volta\//, 'Volta'],
  [/\/(?:\.asdf|mise)\//, 'asdf or mise'],
  [/\/(?:Cellar|homebrew)\//, 'Homebrew'],
  [/\/node_modules\//, 'the npm package node'],
  [/^\/(?:usr\/local|usr|snap)\//, "the system's"],
];

export const checkNode: Check = {
  name: 'node',
  run: ({ commandPath }) => {
    const path = findOwnNode();
    const source = sources.find(([form]) => form.test(path))?.[1];
    const from = source === undefined ? '' : ` (${source})`;
    return [
      ok(`${process.version} at ${path}${from}, ${readLibc().name}`),
      ...[path, commandPath].flatMap(vanishing),
    ];
  },
};

function vanishing(path: string): Finding[] {
  const sentence = warnOfVanishingPath(path);
  if (sentence === null) return [];
  const found = (sentence.split('; run `runner cron', 1)[0] as string).replace(
    path,
    path === findOwnNode() ? 'it' : 'the command',
  );
  return [note(found, 'Run `runner cron --install` again after that, or cron will fail.')];
}
