import { globSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const project = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(project, path), 'utf8');
const notices = read('dist/THIRD-PARTY-NOTICES');
const { components, ...sbom } = JSON.parse(read('dist/sbom.cdx.json'));
const { files, dependencies, peerDependencies } = JSON.parse(read('package.json'));

/** What the sources import of others, but for types alone: all of it is bundled that npm does not install beside us. */
function listImported(): readonly string[] {
  const imports = /^(?:import|export) (?!type\b)(?:[^'";]*? from )?'([^'./][^']*)'|\bimport\('([^'./][^']*)'\)/gm;
  const sources = globSync('src/**/*.{ts,tsx,cts}', { cwd: project }).filter(
    (path) => !/(?:generate|vite\.config)\.ts$/.test(path),
  );
  const names = sources.flatMap((path) =>
    [...read(path).matchAll(imports)].map(([, first, second]) => first ?? second ?? ''),
  );
  const packages = names
    .filter((name) => !isBuiltin(name))
    .map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name);
  const installed = Object.keys({ ...dependencies, ...peerDependencies });
  return [...new Set(packages)].filter((name) => !installed.includes(name)).toSorted();
}

test('the package has a notice and an entry in its SBOM for each package that its sources take code from', () => {
  expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' });
  const names = components.map(({ name }: { name: string }) => name);
  const imported = listImported();
  expect(imported.length).toBeGreaterThan(20);
  expect(imported.filter((name) => !names.includes(name))).toEqual([]);
  for (const { name, version, purl, licenses } of components) {
    expect(purl).toBe(`pkg:npm/${name.replace('@', '%40')}@${version}`);
    expect(notices).toContain(`${name} ${version} (${licenses[0].license.name})\n`);
    expect(notices).toContain(licenses[0].license.text.content);
  }
});

test('what is published holds both', () => {
  expect(files).toContain('dist');
});
