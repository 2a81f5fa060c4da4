import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'glob';
import { expect, test } from 'vitest';
import { kinds } from '../kinds.ts';
import { repository } from '../support/site.ts';

const read = (path: string): string => readFileSync(join(repository, path), 'utf8');

function ci(...args: readonly string[]) {
  // Bash warns on standard error of a locale that the machine does not have.
  const env = { ...process.env, LC_ALL: 'C' };
  const { status, stdout, stderr } = spawnSync(join(repository, '.ci/run'), args, { encoding: 'utf8', env });
  return { status, stdout, stderr };
}

const stages = ci('--list').stdout.trim().split('\n');

test('the workflow of each change runs each stage of .ci/run once', () => {
  const [, matrix = ''] = /^ +stage: \[(.+)\]$/m.exec(read('.github/workflows/ci.yml')) ?? [];
  expect(stages.length).toBeGreaterThan(5);
  expect(matrix.split(', ')).toEqual(stages);
});

test('CONTRIBUTING.md names each stage', () => {
  const page = read('CONTRIBUTING.md');
  expect(stages.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});

test('.ci/run refuses a stage that there is not, before it changes the machine, and names those that there are', () => {
  expect(ci('package', 'packages')).toEqual({
    status: 2,
    stdout: '',
    stderr: `.ci/run: there is no stage "packages"; the stages are: ${stages.join(' ')}\n`,
  });
});

test('each test lies in the folder of a kind: elsewhere nobody would run it', () => {
  const folders = globSync('test/**/*.test.ts', { cwd: repository }).map((path) => path.split('/')[1]);
  expect([...new Set(folders)].toSorted()).toEqual(kinds.map(({ name }) => name).toSorted());
});

test('each pattern of .ci/matrix.ts names tests', () => {
  const { status, stderr } = spawnSync(process.execPath, [join(repository, '.ci/matrix.ts'), '--check']);
  expect([status, String(stderr)]).toEqual([0, '']);
});

test.each(readdirSync(join(repository, '.github/workflows')))(
  '%s names each action by its commit, and may write nothing',
  (file) => {
    const workflow = read(`.github/workflows/${file}`);
    const actions = [...workflow.matchAll(/uses: (.+)$/gm)].map(([, action = '']) => action);
    expect(actions.length).toBeGreaterThan(1);
    expect(actions.filter((action) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
    expect(workflow).toContain('\npermissions:\n  contents: read\n');
    expect(workflow.match(/: write$/gm) ?? []).toEqual(file === 'release.yml' ? [': write'] : []);
  },
);
