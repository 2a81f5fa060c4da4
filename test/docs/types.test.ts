import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'glob';
import { expect, test } from 'vitest';
import {
  makeExamplePlace,
  readExamples,
  repository,
  writeExampleFile,
} from '../support/doc-examples.ts';

const pages = globSync(['README.md', 'docs/**/*.md'], { cwd: repository }).sort();

test('TypeScript in the documentation passes the type check of a strict project', () => {
  const place = makeExamplePlace();
  for (const { place: where, content } of pages.flatMap(readExamples).filter(isTypeScript)) {
    writeExampleFile(place, `examples/${where.replaceAll(/\W/g, '-')}.ts`, content);
  }
  writeFileSync(join(place.root, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(place.root, 'tsconfig.json'), JSON.stringify(project));
  const tsc = join(repository, 'node_modules/typescript/bin/tsc');
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', place.root], {
    encoding: 'utf8',
  });
  expect({ status, stdout }).toEqual({ status: 0, stdout: '' });
});

const isTypeScript = ({ language }: { readonly language: string }): boolean => language === 'ts';

/** What a user would write, with the package's sources in place of its built types. */
const project = {
  extends: join(repository, 'tsconfig.json'),
  compilerOptions: {
    types: ['node'],
    typeRoots: [join(repository, 'node_modules/@types')],
    paths: { 'folder-runner': [join(repository, 'src/index.ts')] },
    erasableSyntaxOnly: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
  },
  include: ['examples'],
  exclude: [],
};
