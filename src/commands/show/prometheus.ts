import { chmodSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { UsageError } from '../../system/base/errors.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';

export interface PrometheusOptions {
  readonly root?: string | undefined;
  /** Into this file instead of stdout. */
  readonly output?: string | undefined;
}

/** `runner metrics --prometheus`: all metrics in Prometheus' text format, printed or put into a file. */
export async function showPrometheus(context: CommandContext, { root, output }: PrometheusOptions): Promise<void> {
  const text = await withLog(context, root, async ({ store }) => {
    if (store === null) return '';
    const { readFamilies } = await import('../../monitor/telemetry/read-families.ts');
    const { writePrometheus } = await import('../../monitor/telemetry/families.ts');
    return writePrometheus(await readFamilies(store, context.now(), context.version));
  });
  if (output === undefined) await print(context, text);
  else replaceFile(resolve(context.cwd, output), text);
}

/**
 * Whoever reads the file sees all of the old one or all of the new one. The collector of node_exporter is another
 * user, and reads only files that end in `.prom`: the new one does not, until it is whole.
 */
function replaceFile(path: string, text: string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    writeFileSync(temporary, text, { mode: 0o644 });
    // Whatever the umask says.
    chmodSync(temporary, 0o644);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new UsageError(`--output ${path} could not be written: ${(error as Error).message}`);
  }
}
