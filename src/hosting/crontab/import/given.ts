import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What cron sets itself, whatever its PAM has. */
const OF_CRON = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'USER'];

/**
 * The variables that cron of this host gives each command besides those of the crontab: Debian's and Enterprise
 * Linux's have them from PAM, out of `/etc/environment` and `/etc/default/locale`.
 *
 * @param system where the files of the system are
 * @returns each variable with its value
 */
export function readGivenVariables(system = '/'): ReadonlyMap<string, string> {
  const lines = ['cron', 'crond'].map((service) => readService(system, service, 0)).find(({ length }) => length > 0);
  const files = (lines ?? []).flatMap(environmentFileOf);
  const all = files.flatMap((file) => readAssignments(readIfThere(join(system, file))));
  return new Map(all.filter(([name]) => !OF_CRON.includes(name)));
}

const DEEPEST = 8;

/** The lines of a service of PAM, with those that it includes. */
function readService(system: string, name: string, depth: number): string[] {
  if (depth > DEEPEST || name.includes('/')) return [];
  const text = readIfThere(join(system, 'etc/pam.d', name)).replaceAll(/\\\n/g, ' ');
  if (text === '') return [];
  return text.split('\n').flatMap((line) => {
    const [, all, some] = /^\s*(?:@include\s+(\S+)|-?(?:auth|session)\s+(?:include|substack)\s+(\S+))/.exec(line) ?? [];
    const included = all ?? some;
    return included === undefined ? [line] : readService(system, included, depth + 1);
  });
}

/** `session required pam_env.so envfile=/etc/default/locale` */
function environmentFileOf(line: string): readonly string[] {
  const [, options] = /^\s*-?(?:auth|session)\s+(?:\[[^\]]*\]|\S+)\s+(?:\S*\/)?pam_env\.so\b([^#]*)/.exec(line) ?? [];
  if (options === undefined || /\breadenv=0\b/.test(options)) return [];
  return [/\benvfile=(\S+)/.exec(options)?.[1] ?? '/etc/environment'];
}

/** As PAM reads them: `export` is left out, and so are the quotes around a value. */
function readAssignments(text: string): [string, string][] {
  return text.split('\n').flatMap((line) => {
    const [, name, value = ''] = /^\s*(?:export\s+)?([A-Za-z_]\w*)=(.*?)\s*$/.exec(line) ?? [];
    return name === undefined ? [] : [[name, value.replace(/^(["'])(.*)\1$/, '$2')]];
  });
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
