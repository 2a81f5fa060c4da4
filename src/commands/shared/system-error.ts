import { errorCode } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';

/** Names of system calls that write, as errors name them. */
const WRITING = /^(mkdir|rename|link|symlink|unlink|rmdir|chmod|chown|utime|futime|copyfile|write|fsync|fdatasync)/;

const reasons: Readonly<Record<string, string>> = {
  EROFS: 'the disk is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'your quota is used up',
  ENOENT: 'it does not exist',
  EEXIST: 'it exists already',
  ENOTDIR: 'a file is where a folder is needed',
  EISDIR: 'a folder is where a file is needed',
  ELOOP: 'its links lead in a circle',
  ENAMETOOLONG: 'its name is too long',
  EMFILE: "too many files are open for the host's limit",
  ENFILE: 'too many files are open on the host',
};

/** Why the system refused it, in words; those of the system itself where there are no better ones. */
export function reasonOfSystem(error: NodeJS.ErrnoException): string {
  const code = errorCode(error);
  if (code === 'EACCES' || code === 'EPERM') {
    return WRITING.test(error.syscall ?? '') ? 'your user may not write there' : 'your user may not use it';
  }
  return reasons[code] ?? error.message;
}

/** Describes an unforeseen system error: the file, the reason and the cure. */
export function describeSystemError(error: NodeJS.ErrnoException): { readonly message: string; readonly exitCode: 1 } {
  const { path, dest = path, message } = error as NodeJS.ErrnoException & { readonly dest?: string };
  const reason = reasonOfSystem(error);
  if (dest === undefined || reason === message) return { message, exitCode: 1 };
  // If the call has two paths, it is mostly the second one that is refused.
  const what = `${printableLine(dest)}: ${reason} (${errorCode(error)})`;
  return { message: `${what}. Correct that, or name another file or folder.`, exitCode: 1 };
}
