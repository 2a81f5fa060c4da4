import { expect, test } from 'vitest';
import { findWebRoot } from '../../../src/system/place/web-exposure.ts';

test.each([
  ['/home/me/public_html', '/home/me/public_html'],
  ['/home/me/public_html/tools/runner', '/home/me/public_html'],
  ['/var/www/vhosts/example.org/httpdocs/x', '/var/www/vhosts/example.org/httpdocs'],
  ['/homez.1/me/www/runner', '/homez.1/me/www'],
  ['/srv/htdocs/x', '/srv/htdocs'],
  ['/var/www/html/runner', '/var/www'],
  ['/var/www/clients/client1/web1/web/x', '/var/www'],
])('%s is inside %s', (path, webRoot) => {
  expect(findWebRoot(path)).toBe(webRoot);
});

test.each([
  '/home/me/runner',
  '/var/www/vhosts/example.org/runner',
  '/var/www/example.org/private/runner',
  '/var/www/clients/client1/web1/private/runner',
  '/home/www-data/runner',
  '/home/me/my_public_html',
  '/',
])('%s is in no web root', (path) => {
  expect(findWebRoot(path)).toBeNull();
});
