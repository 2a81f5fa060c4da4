import { basename } from 'node:path';
import type { Launch } from '../discovery/script.ts';
import { findOwnNode, findProgram } from '../process/find-program.ts';

/** The argument vector that runs a script: Node with the probe, or the script's interpreter. */
export function buildCommand(
  launch: Launch,
  scriptPath: string,
  node: { readonly heapLimitBytes: number | null; readonly probePath: string },
): readonly [string, ...string[]] {
  if (launch.kind === 'program') return launch.command;
  return buildNodeCommand(node.heapLimitBytes, '--require', node.probePath, scriptPath);
}

/** By the Node that runs this; without a limit by V8's own. */
export function buildNodeCommand(
  heapLimitBytes: number | null,
  ...args: readonly string[]
): readonly [string, ...string[]] {
  const heap =
    heapLimitBytes === null
      ? []
      : [`--max-old-space-size=${Math.ceil(heapLimitBytes / 1_048_576)}`];
  return [findOwnNode(), ...heap, ...args];
}

/** The interpreter that `#!/usr/bin/env name` asks for, when it is nowhere on the script's PATH. */
export function findMissingInterpreter(
  command: readonly string[],
  path: string | undefined,
): string | null {
  const [program, name] = command;
  if (program === undefined || name === undefined) return null;
  if (basename(program) !== 'env' || name.startsWith('-') || name.includes('/')) return null;
  return findProgram(name, path ?? '') === null ? name : null;
}
