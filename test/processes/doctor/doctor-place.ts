import { hostChecks } from '../../../src/checks/host/list.ts';
import { examinePlace } from '../../../src/checks/host/site.ts';
import { findWrongUse } from '../../../src/commands/wrong-use.ts';
import type { Finding } from '../../../src/monitor/finding.ts';
import { doctorToJson } from '../../../src/report/json.ts';
import { callCommand, commandPath, contextOf, runNode } from '../../support/command.ts';
import { type FileContent, makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

type Checked = ReturnType<typeof doctorToJson>['checks'][number];
export type CheckedStatus = Checked['status'];

export interface Diagnosis {
  readonly status: number | null;
  readonly ok: boolean;
  /** What a check found; with a status, only what has it. */
  of(name: string, status?: CheckedStatus): Omit<Checked, 'name'>[];
}

export const usual = {
  'jobs/hourly/a.mjs': "import { writeFileSync } from 'node:fs'; writeFileSync('was-run', '');",
  'jobs/daily/b.mjs': 'console.log(1)',
};

/** A root whose two tiers cron calls. */
export async function makeCalledRoot(files: Readonly<Record<string, FileContent>> = usual) {
  const root = makeTemporaryRoot(files);
  const crontab = makeFakeCrontab();
  await callCommand(['cron', '--install'], { cwd: root, env: crontab.env });
  return { root, crontab, env: crontab.env };
}

/** What these checks find, without the others, of which some take long. */
export async function look(root: string, env: NodeJS.ProcessEnv, ...names: readonly string[]) {
  const checks = hostChecks.filter(({ code }) => names.includes(code));
  const { distFolder, version } = contextOf({ cwd: root, env });
  const place = { root, env, distFolder, version, nowMs: Date.now() };
  const request = {
    ...place,
    findWrongUse: (cwd: string, args: readonly string[]) => findWrongUse({ args, context: contextOf({ cwd, env }) }),
  };
  const found: Finding[] = [];
  for await (const finding of examinePlace(request, checks)) found.push(finding);
  return { of: selectFrom(doctorToJson(found).checks) };
}

/** What one check finds; with a status, only what has it. */
export async function check(root: string, env: NodeJS.ProcessEnv, name: string, status?: CheckedStatus) {
  return (await look(root, env, name)).of(name, status);
}

/** `runner doctor --json` */
export function diagnose(root: string, env: NodeJS.ProcessEnv, command: string = commandPath): Diagnosis {
  const args = [command, 'doctor', '--json'];
  const { status, stdout, stderr } = runNode(args, { cwd: root, env });
  if (stderr !== '') throw new Error(stderr);
  const { ok, checks } = JSON.parse(stdout) as { readonly ok: boolean; readonly checks: readonly Checked[] };
  return { status, ok, of: selectFrom(checks) };
}

function selectFrom(all: readonly Checked[]): Diagnosis['of'] {
  return (name, wanted) =>
    all
      .filter((each) => each.name === name && (wanted === undefined || each.status === wanted))
      .map(({ name: _, ...finding }) => finding);
}
