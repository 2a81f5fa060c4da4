import { expect, test } from 'vitest';
import { findFlaw } from '../../../src/store/server/mysql/engine.ts';

test.each([
  '8.0.17',
  '8.0.36',
  '8.4.0',
  '9.1.0-cloud',
  '10.6.12-MariaDB-log',
  '5.5.5-10.11.18-MariaDB-0+deb12u1',
  '11.4.2-MariaDB',
])('a log can be on %s', (version) => {
  expect(findFlaw(version)).toBeNull();
});

test.each(['5.7.44', '8.0.16', '8.0.4-rc', '10.5.9-MariaDB', '5.5.5-10.3.39-MariaDB'])('%s is too old', (version) => {
  expect(findFlaw(version)).toMatch(/too old: MySQL 8\.0\.17 or MariaDB 10\.6 or newer is needed$/);
});

test('TiDB is refused: it locks nothing where it is asked to pass over what is locked', () => {
  expect(findFlaw('8.0.11-TiDB-v8.5.6')).toMatch(/^TiDB .* would give one job to two machines/);
});
