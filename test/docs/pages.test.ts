import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { globSync } from 'glob';
import { expect, test } from 'vitest';
import { scriptSettings } from '../../src/settings/script-settings.ts';
import { ALERTS_VARIABLE, defaultRetryDelay, defaultSettings } from '../../src/settings/settings.ts';
import { settingsTable } from '../../src/settings/site-settings.ts';
import { heldName, type SettingsTable } from '../../src/settings/table.ts';
import { databaseVariables } from '../../src/store/shared/which-log.ts';
import { jobStates } from '../../src/store/words.ts';
import { OVERRIDE_VARIABLE } from '../../src/system/place/trust.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { readExamples, repository } from '../support/site.ts';

const pages = globSync(['*.md', 'bench/*.md', 'docs/**/*.md'], { cwd: repository }).sort();
const nodePath = `${dirname(process.execPath)}:/usr/bin:/bin`;
const read = (page: string): string => readFileSync(join(repository, page), 'utf8');

test('every link to a file leads to one', () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !existsSync(join(repository, dirname(page), target)))
      .map((target) => `${page}: ${target}`),
  );
  expect(broken).toEqual([]);
});

test('every link to a heading leads to one', () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)]
      .map(([, target = '', anchor = '']) => ({ file: target === '' ? page : join(dirname(page), target), anchor }))
      .filter(({ file, anchor }) => file.endsWith('.md') && !anchorsOf(file).has(anchor))
      .map(({ file, anchor }) => `${page}: ${file}#${anchor}`),
  );
  expect(broken).toEqual([]);
});

test('every link of a page in the package leads to what is in it', () => {
  const packed = new Set(listPacked(repository));
  const shipped = pages.filter((page) => packed.has(page));
  expect(shipped).toEqual(expect.arrayContaining(['README.md', 'CHANGELOG.md', 'docs/README.md', 'docs/queue.md']));
  const isThere = (path: string): boolean =>
    packed.has(path) || (path.endsWith('/') && [...packed].some((file) => file.startsWith(path)));
  const missing = shipped.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)]
      .map(([, target = '']) => join(dirname(page), target))
      .filter((path) => !isThere(path))
      .map((path) => `${page}: ${path}`),
  );
  expect(missing).toEqual([]);
});

function listPacked(folder: string): string[] {
  const { stdout } = npm(folder, 'pack', '--dry-run', '--json', '--ignore-scripts');
  return (JSON.parse(stdout) as [{ files: { path: string }[] }])[0].files.map(({ path }) => path);
}

function npm(cwd: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd, encoding: 'utf8' });
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  return { stdout };
}

test('the packed package.json has nothing that only a clone needs, and that of the clone stays as it is', () => {
  const { scripts, ...rest } = JSON.parse(read('package.json'));
  // What builds is tried by each clone.
  const source = `${JSON.stringify({ ...rest, scripts: { ...scripts, build: 'mkdir -p dist' } }, null, 2)}\n`;
  const clone = makeTemporaryRoot({ 'package.json': source, 'node_modules/.keep': '', 'dist/bin.cjs': '' });
  npm(clone, 'pack', '--silent');
  expect(readFileSync(join(clone, 'package.json'), 'utf8')).toBe(source);
  const tar = ['--extract', '--to-stdout', '--file', `folder-runner-${rest.version}.tgz`, 'package/package.json'];
  const packed = JSON.parse(spawnSync('tar', ['--gzip', ...tar], { cwd: clone, encoding: 'utf8' }).stdout);
  const { devDependencies: _, overrides: __, allowScripts: ___, ...wanted } = rest;
  expect(packed).toEqual(wanted);
});

test('a package is published only with the fields by which a user reaches its author', () => {
  const publish = (fields: object) => {
    const folder = makeTemporaryRoot({ 'package.json': JSON.stringify({ name: 'x', ...fields }) });
    const script = JSON.parse(read('package.json')).scripts.prepublishOnly.replace(
      'publishable',
      `${repository}/publishable`,
    );
    return spawnSync('sh', ['-c', script], { cwd: folder, encoding: 'utf8', env: { PATH: nodePath } });
  };
  const fields = { repository: 'a/b', bugs: 'https://a.example', homepage: 'https://a.example', author: 'A' };
  expect(publish(fields)).toMatchObject({ status: 0, stderr: '' });
  for (const missing of Object.keys(fields)) {
    const { status, stderr } = publish({ ...fields, [missing]: undefined });
    expect(status).toBe(1);
    expect(stderr).toContain(`lacks 1 of the fields that users need.\n  ${missing}: npm pkg set ${missing}`);
  }
});

/** What GitHub makes of the headings of a page. */
function anchorsOf(page: string): Set<string> {
  const headings = read(page)
    .replace(/^ *```[\s\S]*?^ *```/gm, '')
    .matchAll(/^#+ (.+)$/gm);
  return new Set([...headings].map(([, title = '']) => anchorOf(title)));
}

const anchorOf = (title: string): string =>
  title
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-');

test.each(['docs', 'docs/decisions'])('the index of %s names every page in it', (folder) => {
  const index = `${folder}/README.md`;
  const missing = pages
    .filter((page) => dirname(page) === folder && page !== index)
    .filter((page) => !read(index).includes(`](${relative(folder, page)})`));
  expect(missing).toEqual([]);
});

test('every decision that a page names by its number is there', () => {
  const numbers = new Set(
    globSync('docs/decisions/0*.md', { cwd: repository }).map((path) => basename(path).slice(0, 4)),
  );
  const named = pages.flatMap((page) =>
    [...read(page).matchAll(/decision (\d{4})|\((00\d\d)\)/g)].map(([, one, other]) => ({
      page,
      number: one ?? other,
    })),
  );
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter(({ number = '' }) => !numbers.has(number))).toEqual([]);
});

test('every file that the page on the architecture tells to begin with is there', () => {
  const rows = [...read('docs/architecture.md').matchAll(/^\| (`.+\/`) \| .+ \| (.+) \|$/gm)];
  const named = rows.flatMap(([, folders = '', files = '']) =>
    namesIn(files).map((file) => namesIn(folders).map((folder) => `src/${folder}${file}.ts`)),
  );
  expect(named.length).toBeGreaterThan(50);
  const isThere = (path: string): boolean => ['', 'x'].some((more) => existsSync(join(repository, path + more)));
  expect(named.filter((paths) => !paths.some(isThere))).toEqual([]);
});

test('the page on the architecture shows the layers that are checked', () => {
  const shown = bodyOf(read('docs/architecture.md'), '```text\ncli\n', '\n```').split('\n');
  const checked = bodyOf(read('.dependency-cruiser.cjs'), "['cli'],\n", '\n];').split('\n');
  const layersOf = (line: string): string[] => line.match(/[a-z]+(?:\/[a-z]+)*/g) ?? [];
  expect(checked.length).toBeGreaterThan(10);
  expect(shown.map((line) => layersOf(line.replace(/ child$/, '')))).toEqual(checked.map(layersOf));
});

const namesIn = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);

test('the page on JSON names every option that `list` prints, and every state of a job', () => {
  const names = [...scriptSettings.map(({ name }) => name), ...Object.keys(defaultRetryDelay), ...jobStates];
  const words = new Set(read('docs/json.md').match(/\w+/g));
  expect(names.filter((name) => !words.has(name))).toEqual([]);
});

/** The rows of a page's tables, as cells. */
const rowsOf = (page: string): readonly (readonly string[])[] =>
  [...read(page).matchAll(/^\| (`.+) \|$/gm)].map(([, row = '']) => row.split(' | '));

test('the page on scripts has a row for every tag, and for no other', () => {
  const tags = rowsOf('docs/scripts.md').flatMap(([first = '']) => /^`@([\w-]+)/.exec(first)?.[1] ?? []);
  expect(new Set(tags)).toEqual(new Set(scriptSettings.map(({ tag }) => tag)));
});

test('the pages on settings and on checks have every setting, with its default', () => {
  const rows = [...rowsOf('docs/settings.md'), ...rowsOf('docs/status.md')];
  const wrong = leavesOf(settingsTable, defaultSettings).flatMap(({ path, read: readAs, standard }) => {
    const name = path.join('.');
    const row = rows.find(([first = '']) => first.startsWith(`\`${name}\``) || first.startsWith(`\`${name}.<`));
    if (row !== undefined) {
      const told = row[2]?.replaceAll(/[`']/g, '') ?? '';
      const isRight = standard === undefined || isDeepStrictEqual(readAs(told), standard);
      return isRight ? [] : [`${name}: ${told} is not ${standard}`];
    }
    const [group, key] = path;
    const isNamed = rows.some((cells) => {
      const [first = ''] = cells;
      return group === 'checks'
        ? first.includes(` \`${key}: `)
        : first === `\`${group}\`` && cells.some((cell) => cell.includes(`${key}: `));
    });
    return isNamed ? [] : [name];
  });
  expect(wrong).toEqual([]);
});

test('the page on settings has a row for each variable that changes what is set', () => {
  const told = rowsOf('docs/settings.md').flatMap(([first = '']) => namesIn(first));
  expect(told).toEqual(expect.arrayContaining([ALERTS_VARIABLE, OVERRIDE_VARIABLE, ...databaseVariables]));
});

interface Leaf {
  readonly path: readonly string[];
  /** The value that is held of what a page tells. */
  readonly read: (told: string) => unknown;
  /** The default; undefined: there is none, or nothing is held by default. */
  readonly standard: unknown;
}

const leavesOf = (table: SettingsTable, defaults: object, path: readonly string[] = []): readonly Leaf[] =>
  Object.entries(table).flatMap(([key, entry]) => {
    const held: unknown = Object.entries(defaults).find(([name]) => name === heldName(key, entry))?.[1];
    if ('group' in entry && key !== 'defaults') return leavesOf(entry.group, Object(held), [...path, key]);
    if (!('read' in entry) || held === null) return [{ path: [...path, key], read: String, standard: undefined }];
    const readAs = (told: string): unknown => {
      if (told === '–') return [];
      const written = ['true', 'false'].includes(told) ? told === 'true' : told;
      const reading = entry.read(written);
      return 'value' in reading ? reading.value : undefined;
    };
    return [{ path: [...path, key], read: readAs, standard: held }];
  });

const bodyOf = (text: string, from: string, to: string): string => text.split(from)[1]?.split(to)[0] ?? '';

test('the docs are at most 20 pages with 44,000 words', () => {
  const docs = pages.filter((page) => dirname(page) === 'docs');
  const words = docs.map((page) => ({ page, words: countWords(read(page)) }));
  const sum = words.reduce((all, each) => all + each.words, 0);
  expect(docs.length).toBeLessThanOrEqual(20);
  expect(sum, JSON.stringify(words)).toBeLessThanOrEqual(44_000);
});

/** Counts as `wc -w` does: a word is all that stands between white space. */
const countWords = (text: string): number => text.trim().split(/\s+/).length;

test('the README has at most 110 lines', () => {
  expect(read('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(110);
});

test('the README names two commands, each alone in a block', () => {
  const section = bodyOf(read('README.md'), '\n## Working on it\n', '\n## ');
  const inSection = readExamples('README.md').filter(({ content }) => section.includes(content));
  expect(inSection.map(({ language, content }) => [language, content])).toEqual([
    ['sh', 'npm install && npm start\n'],
    ['sh', 'npm install && npm test\n'],
  ]);
});

test('no line of a page is longer than 120 characters, but for tables and addresses', () => {
  const long = pages.flatMap((page) =>
    read(page)
      .split('\n')
      .map((line, index) => ({ line, place: `${page}:${index + 1}` }))
      .filter(({ line }) => line.length > 120 && !line.startsWith('|') && !line.includes('https://'))
      .map(({ place }) => place),
  );
  expect(long).toEqual([]);
});

test('no line of a page names a folder of the machine it was written on', () => {
  const found = pages.filter((page) => /\/(?:work|tmp|root)\//.test(read(page)));
  expect(found).toEqual([]);
});
