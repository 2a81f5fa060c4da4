import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const project = join(import.meta.dirname, '../..');
const notices = readFileSync(join(project, 'dist/THIRD-PARTY-NOTICES'), 'utf8');
const { components, ...sbom } = JSON.parse(readFileSync(join(project, 'dist/sbom.cdx.json'), 'utf8'));

/** Of the command, of the log, of the dashboard's server, and of its page. */
const bundled = ['commander', 'croner', 'kysely', 'zod', 'hono', 'nodemailer', 'bcryptjs', 'preact', 'uplot', 'diff'];

test('the package has a notice and an entry in its SBOM for each package that it bundles', () => {
  expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' });
  const names = components.map(({ name }: { name: string }) => name);
  expect(names).toEqual(expect.arrayContaining(bundled));
  for (const { name, version, purl, licenses } of components) {
    expect(purl).toBe(`pkg:npm/${name.replace('@', '%40')}@${version}`);
    expect(notices).toContain(`${name} ${version} (${licenses[0].license.name})\n`);
    expect(notices).toContain(licenses[0].license.text.content);
  }
});

test('what is published holds both', () => {
  const { files } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
  expect(files).toContain('dist');
});
