import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode, PackageIncomplete } from '../system/base/errors.ts';

/** The page as it was built: one file with all that it needs. */
export interface BuiltPage {
  readonly html: string;
  /** Sources of a content security policy: just the page's own script and styles. */
  readonly sources: readonly string[];
}

/** @throws {PackageIncomplete} where the package lacks it */
export function readBuiltPage(distFolder: string): BuiltPage {
  const path = join(distFolder, 'dashboard.html');
  try {
    const html = readFileSync(path, 'utf8');
    const sources = [
      "default-src 'none'",
      `script-src ${hashesOf(html, 'script')}`,
      `style-src ${hashesOf(html, 'style')}`,
    ];
    return { html, sources };
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new PackageIncomplete(`${path} is missing`);
    throw error;
  }
}

function hashesOf(html: string, tag: string): string {
  return [...html.matchAll(new RegExp(`<${tag}[^>]*>([\\s\\S]*?)</${tag}>`, 'g'))]
    .map(([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
    .join(' ');
}
