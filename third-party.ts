import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import packageJson from './package.json' with { type: 'json' };

/** A package of others of which the build has taken code. */
interface Bundled {
  readonly name: string;
  readonly version: string;
  /** As SPDX writes it. */
  readonly license: string;
  readonly text: string;
}

const NOTICES = 'THIRD-PARTY-NOTICES';
const SBOM = 'sbom.cdx.json';

/** One entry of CycloneDX 1.6 for each package; the licence's text is what the notices are made of. */
interface Component {
  readonly type: 'library';
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses: readonly [{ readonly license: { readonly name: string; readonly text: { content: string } } }];
}

interface Chunk {
  readonly type: string;
  readonly moduleIds?: readonly string[];
}

/**
 * Writes the licences of all bundled packages beside the bundle, and a list of them in CycloneDX, which tools that
 * look for known holes read. Several builds share one folder, so each adds its packages to what is there.
 */
export function noteThirdParty() {
  const folders = new Set<string>();
  return {
    name: 'third-party-notices',
    // Before chunks go into one file: of that nobody knows the modules.
    generateBundle(_options: unknown, bundle: Readonly<Record<string, Chunk>>): void {
      const modules = Object.values(bundle).flatMap(({ moduleIds = [] }) => moduleIds);
      for (const folder of modules.flatMap((id) => packageFolderOf(id) ?? [])) folders.add(folder);
    },
    writeBundle({ dir }: { readonly dir?: string }): void {
      if (dir === undefined) return;
      const found = [...folders].map(readPackage).map(toComponent);
      const all = new Map([...readComponents(dir), ...found].map((each) => [each.purl, each]));
      const components = [...all.values()].toSorted((one, other) => (one.purl < other.purl ? -1 : 1));
      writeFileSync(join(dir, SBOM), `${JSON.stringify(toSbom(components), null, 1)}\n`);
      writeFileSync(join(dir, NOTICES), toNotices(components));
    },
  };
}

const PACKAGES = '/node_modules/';

/** The folder of the package that a module is of; null: it is our own, or the bundler's. */
function packageFolderOf(id: string): string | null {
  const start = id.lastIndexOf(PACKAGES);
  if (start === -1 || id.startsWith('\0')) return null;
  const name = /^(?:@[^/]+\/)?[^/]+/.exec(id.slice(start + PACKAGES.length))?.[0] ?? '';
  return id.slice(0, start + PACKAGES.length) + name;
}

/** Packages without a licence file, and the package of the same authors whose text is theirs. */
const textOf: Readonly<Record<string, string>> = { '@hono/zod-openapi': 'hono', '@hono/zod-validator': 'hono' };

function readPackage(folder: string): Bundled {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const other = textOf[name];
  const text = readLicenses(other === undefined ? folder : join(import.meta.dirname, 'node_modules', other));
  // Its author demands that the text goes with the code.
  if (text.length === 0) throw new Error(`${folder} has no licence file, so its code cannot be shipped`);
  return { name, version, license: String(license), text: text.join('\n\n') };
}

function readLicenses(folder: string): readonly string[] {
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]es?|copying|notice)(?:[.-]|$)/i.test(file));
  return files.toSorted().map((file) => readFileSync(join(folder, file), 'utf8').trim());
}

function toComponent({ name, version, license, text }: Bundled): Component {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  const licenses = [{ license: { name: license, text: { content: text } } }] as const;
  return { type: 'library', 'bom-ref': purl, name, version, purl, licenses };
}

function readComponents(dir: string): readonly Component[] {
  try {
    return JSON.parse(readFileSync(join(dir, SBOM), 'utf8')).components;
  } catch {
    // The first build of several.
    return [];
  }
}

function toSbom(components: readonly Component[]) {
  const { name, version } = packageJson;
  const purl = `pkg:npm/${name}@${version}`;
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', 'bom-ref': purl, name, version, purl } },
    components,
  };
}

function toNotices(components: readonly Component[]): string {
  const parts = components.map(({ name, version, licenses: [{ license }] }) => {
    return `${name} ${version} (${license.name})\n\n${license.text.content}\n`;
  });
  return ['This package contains code of the following packages.\n', ...parts].join(`\n${'-'.repeat(80)}\n\n`);
}
