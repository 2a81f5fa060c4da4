import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { errorCode, PackageIncomplete } from '../system/base/errors.ts';

/** The page as it was built: one file with all that it needs. */
export interface BuiltPage {
  readonly html: string;
  /** The same, compressed: all that a server needs. */
  readonly gzipped: Buffer<ArrayBuffer>;
  /** Sources of a content security policy: just the page's own script and styles. */
  readonly sources: readonly string[];
}

/** @throws {PackageIncomplete} where the package lacks it */
export function readBuiltPage(distFolder: string): BuiltPage {
  const path = join(distFolder, 'dashboard.html.gz');
  try {
    const gzipped = readFileSync(path);
    const html = gunzipSync(gzipped).toString();
    const sources = [
      "default-src 'none'",
      `script-src ${hashesOf(html, 'script')}`,
      `style-src ${hashesOf(html, 'style')}`,
    ];
    return { html, gzipped, sources };
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
