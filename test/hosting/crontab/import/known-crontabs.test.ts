import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { endWithNewline } from '../../../../src/hosting/crontab/block.ts';
import { makeFakeCrontab } from '../../../support/fake-crontab.ts';
import { callCommand } from '../../../support/in-root.ts';
import { queryLog } from '../../../support/open-log.ts';
import { runCommand } from '../../../support/run-command.ts';
import { readAsCron, runAsCron } from './as-cron.ts';
import { crontabNames, makeSandbox } from './sandbox.ts';

interface PlannedLine {
  readonly line: number;
  readonly script: string | null;
  readonly notes: readonly string[];
}

describe('Twenty crontabs', () => {
  test('are twenty', () => expect(crontabNames).toHaveLength(20));

  test.each(crontabNames)(
    '%s: each imported line runs as cron ran it, and undone the crontab is the same byte for byte',
    async (name) => {
      const sandbox = makeSandbox(name);
      const isSystem = name === 'certbot';
      const before = Buffer.from(sandbox.crontab, 'latin1');
      const lines = readAsCron(sandbox.crontab, isSystem);
      const wanted = new Map(
        lines.map((each) => [each.line, { ...runAsCron(each, sandbox.home), calls: sandbox.takeCalls() }]),
      );
      const wantedFiles = sandbox.readFiles();
      sandbox.reset();

      const root = join(sandbox.home, 'runner');
      mkdirSync(join(root, 'jobs'), { recursive: true });
      const crontab = makeFakeCrontab();
      crontab.write(before);
      const place = { cwd: root, env: { ...crontab.env, HOME: sandbox.home } };
      const format = isSystem ? ['--format', 'cron.d'] : [];
      const plan = await callCommand(['cron', '--import', ...format, '--json'], place);
      expect(plan.stderr).toBe('');
      const planned: readonly PlannedLine[] = JSON.parse(plan.stdout).lines;
      expect(crontab.read()).toEqual(before);
      // With a user behind its times, no line is one of a user's own crontab.
      const source = isSystem ? ['-', ...format] : [];
      const applied = runCommand(['cron', '--import', ...source, '--apply'], {
        ...place,
        ...(isSystem && { input: sandbox.crontab }),
      });
      expect(applied).toMatchObject({ status: 0 });

      const imported = planned.filter(({ script }) => script !== null);
      expect(planned.filter(({ script, notes }) => script === null && notes.length === 0)).toEqual([]);
      expect(imported.length).toBeGreaterThan(0);
      for (const { line, script } of imported) {
        const short = (script as string).replace(/^jobs\/(.*)\.sh$/, '$1');
        runCommand(['run', short], place);
        const [run] = queryLog<{ exit_code: number; output: string }>(
          root,
          'select exit_code, output from runs where script = ?',
          short,
        );
        const found = { status: run?.exit_code, output: run?.output, calls: sandbox.takeCalls() };
        expect({ line, ...found }).toEqual({ line, ...wanted.get(line) });
      }
      const left = lines.filter(({ line }) => !imported.some((each) => each.line === line));
      if (left.length === 0) expect(sandbox.readFiles()).toEqual(wantedFiles);

      expect(await callCommand(['cron', '--undo'], place)).toMatchObject({ status: 0 });
      expect(crontab.read()).toEqual(endWithNewline(before));
      expect(readdirSync(sandbox.home)).not.toContain('.folder-runner');
    },
    120_000,
  );
});
