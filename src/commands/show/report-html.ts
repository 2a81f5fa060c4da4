import { resolve } from 'node:path';
import type { Protection } from '../../dashboard/static/protect.ts';
import { printable } from '../../system/base/text.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, rootOf } from '../shared/open.ts';

interface HtmlRequest {
  readonly root: string | undefined;
  /** As it was given: from the current folder. */
  readonly path: string;
  readonly isWithOutput: boolean;
  /** Undefined: as it seems fit. */
  readonly protect: boolean | undefined;
}

/** `runner report --html`: the dashboard of this moment as a file. */
export async function writeHtmlReport(context: CommandContext, request: HtmlRequest): Promise<void> {
  const { cwd, env, version, now, distFolder } = context;
  const root = rootOf(context, request.root);
  const { findReportFile, replaceFile } = await import('../../dashboard/static/write.ts');
  const { makeStaticReport } = await import('../../dashboard/static/report.ts');
  const { isServed, protectReport } = await import('../../dashboard/static/protect.ts');
  const { formatBytes } = await import('../../report/text/format.ts');
  const file = findReportFile(resolve(cwd, request.path));
  const { isWithOutput, protect = isServed(file) } = request;
  const report = await makeStaticReport({ site: { root, env, version, now }, distFolder, isWithOutput });
  // Before anybody could read it.
  const login = request.protect === true || context.stdout.isTTY ? 'login' : 'deny';
  const protection = await protectReport({ file, by: protect ? login : 'none' });
  replaceFile(file, report.html);
  const { runsSince } = report;
  const size = formatBytes(Buffer.byteLength(report.html));
  const what = isWithOutput ? 'with what scripts have printed' : 'without output, errors and data of jobs';
  const older = runsSince === null ? '' : `; runs before ${runsSince} were left out for its size`;
  await print(context, `${printable(file)} ${size}, ${what}${older}\n${describeLogin(protection)}`);
  if (protection.warning !== null) context.stderr.write(`runner: WARNING: ${printable(protection.warning)}\n`);
}

function describeLogin({ done, login }: Protection): string {
  const lines = [
    ...(done === null ? [] : [printable(done)]),
    ...(login === null ? [] : [`user ${login.user}, password ${login.password} (shown only now)`]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
