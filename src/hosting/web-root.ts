/** What hosts call the folder whose files the web server hands out. */
const WEB_ROOT_NAMES = new Set(['public_html', 'www', 'htdocs', 'httpdocs']);

/** Where Plesk has its users' home folders, none of them served for being there. */
const PLESK_HOMES = '/var/www/vhosts/';

/** The part of the path that a web server probably serves, or null. */
export function findWebRoot(path: string): string | null {
  const home = path.startsWith(PLESK_HOMES) ? PLESK_HOMES : '';
  const parts = path.slice(home.length).split('/');
  const index = parts.findIndex((part) => WEB_ROOT_NAMES.has(part));
  return index === -1 ? null : home + parts.slice(0, index + 1).join('/');
}
