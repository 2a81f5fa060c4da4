/** What hosts call the folder whose files the web server hands out. */
const WEB_ROOT_NAMES = new Set(['public_html', 'www', 'htdocs', 'httpdocs']);

/** The part of the path that a web server probably serves, or null. */
export function findWebRoot(path: string): string | null {
  const parts = path.split('/');
  const index = parts.findIndex((part) => WEB_ROOT_NAMES.has(part));
  return index === -1 ? null : parts.slice(0, index + 1).join('/');
}
