import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { globSync } from 'glob';
import ts from 'typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runNode } from '../../support/command.ts';
import { makeExamplePlace, readExamples, repository, writeExampleFile } from '../../support/site.ts';

/** Outside of the repository, whose own `node_modules` would be found otherwise. */
const site = realpathSync(mkdtempSync(join(tmpdir(), 'published-types-')));
const installed = join(site, 'node_modules/folder-runner');

beforeAll(() => {
  mkdirSync(join(installed, 'dist'), { recursive: true });
  cpSync(join(repository, 'package.json'), join(installed, 'package.json'));
  for (const file of globSync('dist/*.{mjs,mts,cts}', { cwd: repository })) {
    cpSync(join(repository, file), join(installed, file));
  }
  writeFileSync(join(site, 'module.mts'), use);
  writeFileSync(join(site, 'script.cts'), `${use}${required}`);
  writeFileSync(join(site, 'client.mts'), call);
});

afterAll(() => rmSync(site, { recursive: true }));

const use = `
import {
  defineConfig,
  defineHandler,
  type Handler,
  type JobContext,
  openQueue,
  QueueError,
  StoreUnavailable,
} from 'folder-runner';
import serve from 'folder-runner/web';

interface Mail { to: string }
interface Sent { at: Date | string; tries: number }

export const settings = defineConfig({ queue: { lease: '5m' } });
export const typed = defineHandler<Mail, { sent: true }>(async ({ data, signal }) => {
  if (signal.aborted) throw new Error(data.to);
  return { sent: true };
});
export const handler = (async ({ data, retry }) => retry({ name: data.to })) satisfies Handler<Mail>;
export const script = ({ signal }: JobContext): boolean => signal.aborted;

export async function work(sent: Sent): Promise<string> {
  const queue = await openQueue({ root: '.', env: { HOME: '/', EMPTY: undefined } });
  const mail: Mail = { to: 'a@example.org' };
  await queue.add('mail', mail, { uniqueKey: 'a' });
  const job = await queue.claim<Mail>('mail', { wait: '1s' });
  if (job !== null) await queue.finish(job, { result: sent, data: mail });
  const read = await queue.get<Mail, Sent>(1);
  await queue.close();
  return read?.data.to ?? sent.tries.toFixed();
}

export const startUp = (): void => serve({ url: 'https://example.org/runner', root: '.' });

export const isOurs = (error: unknown): boolean =>
  error instanceof QueueError ? error.code === 'invalid' : error instanceof StoreUnavailable;
`;

const required = `
import runner = require('folder-runner');
import web = require('folder-runner/web');
export const opened: Promise<runner.Queue> = runner.openQueue();
web({ url: 'https://example.org/runner' } satisfies web.WebApp);
`;

/** Only where there is `fetch`. */
const call = `
import { type Client, type ClientOptions, createClient } from 'folder-runner/client';
export const open = (options: ClientOptions): Client => createClient(options);
export const count = async (client: Client): Promise<number> => (await client.GET('/api/jobs', {})).response.status;
`;

const { NodeNext, Node16, Preserve, ESNext } = ts.ModuleKind;
const { Bundler } = ts.ModuleResolutionKind;

const ofNode = { types: ['node'], typeRoots: [join(repository, 'node_modules/@types')] };

// Which of the built files are read goes by the modules, what they may name by the surroundings.
test.each<[how: string, files: readonly string[], options: ts.CompilerOptions]>([
  ['nodenext', ['module.mts', 'script.cts', 'client.mts'], { module: NodeNext, ...ofNode }],
  ['node16', ['module.mts', 'script.cts', 'client.mts'], { module: Node16, ...ofNode }],
  ['a bundler', ['module.mts', 'script.cts', 'client.mts'], { module: Preserve, moduleResolution: Bundler, ...ofNode }],
  ['modules alone', ['module.mts', 'client.mts'], { module: ESNext, moduleResolution: Bundler, ...ofNode }],
  ['nodenext in a browser', ['module.mts', 'script.cts', 'client.mts'], { module: NodeNext, types: [] }],
  ['the language alone', ['module.mts', 'script.cts'], { module: NodeNext, types: [], lib: ['lib.es2022.d.ts'] }],
])('the built types pass the strictest check of %s', (_, files, options) => {
  expect(checkTypes(files, options)).toEqual([]);
});

test('what `require` gives is what `import` gives', () => {
  const same = `
    const required = require('folder-runner');
    import('folder-runner').then((imported) => {
      console.log(Object.keys(required).every((name) => required[name] === imported[name]));
      console.log(Object.keys(required).filter((name) => name !== '__esModule').join());
    });`;
  const { stdout, stderr } = runNode(['-e', same], { cwd: site, env: {} });
  expect(stderr).toBe('');
  expect(stdout).toBe('true\nQueueError,StoreUnavailable,defineConfig,defineHandler,openQueue\n');
});

/** What the compiler has to say of these files, and of the package's own. */
function checkTypes(files: readonly string[], options: ts.CompilerOptions): readonly string[] {
  const paths = files.map((file) => join(site, file));
  const program = ts.createProgram(paths, { ...strictest, ...options });
  const checked = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(site));
  expect(checked.length).toBeGreaterThan(files.length);
  const found = [
    ...program.getOptionsDiagnostics(),
    ...program.getGlobalDiagnostics(),
    ...checked.flatMap((file) => program.getSyntacticDiagnostics(file)),
    ...checked.flatMap((file) => program.getSemanticDiagnostics(file)),
  ];
  return found.map(
    ({ file, messageText }) => `${file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
  );
}

const strictest: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noUnusedLocals: true,
  skipLibCheck: false,
  noEmit: true,
};

const pages = globSync(['README.md', 'docs/**/*.md'], { cwd: repository }).sort();

test('TypeScript in the documentation passes the type check of a strict project', () => {
  const place = makeExamplePlace();
  for (const { place: where, content } of pages.flatMap(readExamples).filter(isTypeScript)) {
    writeExampleFile(place, `examples/${where.replaceAll(/\W/g, '-')}.ts`, content);
  }
  writeFileSync(join(place.root, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(place.root, 'tsconfig.json'), JSON.stringify(project));
  const tsc = join(repository, 'node_modules/typescript/bin/tsc');
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', place.root], { encoding: 'utf8' });
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
