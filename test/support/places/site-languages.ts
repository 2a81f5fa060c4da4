import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const clients = join(import.meta.dirname, '../../../clients');
const programs = join(import.meta.dirname, '../../command/clients');

/** What a site in this language does, and what it calls things. */
const languages = [
  {
    language: 'PHP',
    command: ['/usr/bin/php', join(programs, 'site.php')],
    delay: 'retryDelay',
    noTime: "runAt must be a DateTimeInterface, such as new DateTimeImmutable('+5 minutes').",
  },
  {
    language: 'Python',
    command: ['python3', join(programs, 'site.py')],
    delay: 'retry_delay',
    noTime: 'run_at must be a datetime with a time zone, such as datetime.now(timezone.utc).',
  },
].map((each) => ({ ...each, isHere: spawnSync(each.command[0] as string, ['--version']).status === 0 }));

/** Those that are installed here. */
export function siteLanguages() {
  for (const { language, isHere } of languages) {
    if (!isHere) console.warn(`NOT TESTED: the file for ${language}, which is not installed here; .ci/run has it.`);
  }
  return languages.filter(({ isHere }) => isHere);
}

/** A site's program in its language, whose folder is the root. */
export function runSite(
  root: string,
  [program = '', file = '']: readonly string[],
  ...args: readonly (string | number)[]
) {
  const env = { PATH: process.env.PATH, HOME: root, PYTHONIOENCODING: 'utf-8', PYTHONDONTWRITEBYTECODE: '1' };
  const ended = spawnSync(program, [file, clients, ...args.map(String)], { cwd: root, env, encoding: 'utf8' });
  return { status: ended.status, stderr: ended.stderr, answers: ended.stdout.split('\n').slice(0, -1) };
}
