import { relative } from 'node:path';
import { printableName } from './printable-name.ts';
import type { Script } from './script.ts';

/** Two files with one script name: which one is meant is not for the runner to guess, so none runs. */
export function refuseRivals(root: string, scripts: readonly Script[]): readonly Script[] {
  return scripts.map((script) => {
    const rivals = scripts.filter((other) => other !== script && other.name === script.name);
    if (rivals.length === 0) return script;
    return { ...script, refusals: [...script.refusals, describeRivals(root, script, rivals)] };
  });
}

function describeRivals(root: string, script: Script, rivals: readonly Script[]): string {
  const [file, ...others] = [script, ...rivals].map(({ path }) =>
    printableName(relative(root, path)),
  );
  return `${file}: its script name ${script.name} is also that of ${others.join(' and ')}; rename one of them`;
}
