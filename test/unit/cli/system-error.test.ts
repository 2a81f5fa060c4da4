import { expect, test } from 'vitest';
import { describeSystemError } from '../../../src/commands/shared/system-error.ts';

const errorOf = (fields: Partial<NodeJS.ErrnoException> & { readonly dest?: string }) =>
  Object.assign(new Error(`${fields.code}: so it was`), fields);

test.for([
  [{ code: 'EACCES', syscall: 'rename', path: '/a', dest: '/b' }, '/b: your user may not write there (EACCES)'],
  [{ code: 'EPERM', syscall: 'mkdir', path: '/a' }, '/a: your user may not write there (EPERM)'],
  [{ code: 'EACCES', syscall: 'open', path: '/a' }, '/a: your user may not use it (EACCES)'],
  [{ code: 'EROFS', syscall: 'open', path: '/a\n' }, '/a␊: the disk is read-only (EROFS)'],
  [{ code: 'ENOTDIR', syscall: 'scandir', path: '/a' }, '/a: a file is where a folder is needed (ENOTDIR)'],
] as const)('%j', ([fields, told]) => {
  expect(describeSystemError(errorOf(fields)).message).toBe(`${told}. Correct that, or name another file or folder.`);
});

test.for([
  { code: 'ECONNRESET', syscall: 'read' },
  { code: 'EXDEV', syscall: 'rename', path: '/a' },
])('the system’s own words stay where there are no better ones: %j', (fields) => {
  expect(describeSystemError(errorOf(fields)).message).toBe(`${fields.code}: so it was`);
});
