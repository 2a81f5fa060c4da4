import type { CheckFinding } from '../../../src/hosting/doctor/check.ts';
import { makeFakeCrontab } from '../../support/fake-crontab.ts';
import { commandPath, runCommand, runNode } from '../../support/run-command.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/temporary-root.ts';

export interface Diagnosis {
  readonly status: number | null;
  readonly ok: boolean;
  /** What a check found; with a status, only what has it. */
  of(name: string, status?: CheckFinding['status']): CheckFinding[];
}

export const usual = {
  'jobs/hourly/a.mjs': "import { writeFileSync } from 'node:fs'; writeFileSync('was-run', '');",
  'jobs/daily/b.mjs': 'console.log(1)',
};

/** A root whose two tiers cron calls. */
export function makeCalledRoot(files: Readonly<Record<string, FileContent>> = usual) {
  const root = makeTemporaryRoot(files);
  const crontab = makeFakeCrontab();
  runCommand(['cron', '--install'], { cwd: root, env: crontab.env });
  return { root, crontab, env: crontab.env };
}

/** `runner doctor --json` */
export function diagnose(root: string, env: NodeJS.ProcessEnv, command: string = commandPath): Diagnosis {
  const args = [command, 'doctor', '--json'];
  const { status, stdout, stderr } = runNode(args, { cwd: root, env });
  if (stderr !== '') throw new Error(stderr);
  const { ok, checks } = JSON.parse(stdout) as {
    ok: boolean;
    checks: (CheckFinding & { name: string })[];
  };
  const of: Diagnosis['of'] = (name, wanted) =>
    checks
      .filter((each) => each.name === name && (wanted === undefined || each.status === wanted))
      .map(({ name: _, ...finding }) => finding);
  return { status, ok, of };
}
