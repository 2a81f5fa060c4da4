import { spawnSync } from 'node:child_process';

/** What cron would run, read by a second reader: the product's own must come to the same. */
export interface CronEntry {
  readonly line: number;
  readonly command: string;
  readonly input: string;
  readonly variables: Readonly<Record<string, string>>;
}

/** Goes through a crontab as Vixie cron's load_env() and load_entry() do, a character at a time. */
export function readAsCron(crontab: string, hasUsers: boolean): CronEntry[] {
  const variables: Record<string, string> = {};
  const entries: CronEntry[] = [];
  crontab.split('\n').forEach((whole, index) => {
    const text = whole.replace(/\r$/, '').trimStart();
    if (text === '' || text.startsWith('#')) return;
    const assignment = /^(\w+)\s*=\s*(.*?)\s*$/.exec(text);
    if (assignment !== null) {
      const [, name = '', value = ''] = assignment;
      variables[name] = /^(["']).*\1$/.test(value) ? value.slice(1, -1) : value;
      return;
    }
    const fields = (text.startsWith('@') ? 1 : 5) + (hasUsers ? 1 : 0);
    let rest = text;
    for (let field = 0; field < fields; field += 1) rest = rest.replace(/^\S+\s*/, '');
    if (rest !== '') entries.push({ line: index + 1, ...splitAtPercent(rest), variables: { ...variables } });
  });
  return entries;
}

/** As do_command.c: the first bare percent sign ends the command; later ones are line feeds of its input. */
function splitAtPercent(text: string): { command: string; input: string } {
  const parts = [''];
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index] as string;
    if (character === '\\' && text[index + 1] === '%') {
      parts[parts.length - 1] += '%';
      index += 1;
    } else if (character === '%') parts.push('');
    else parts[parts.length - 1] += character;
  }
  const [command = '', ...lines] = parts;
  const input = lines.join('\n');
  return { command, input: input === '' || input.endsWith('\n') ? input : `${input}\n` };
}

/** Runs it as cron does: in the home, in an environment of its own. */
export function runAsCron(
  { command, input, variables }: CronEntry,
  home: string,
): { status: number | null; output: string } {
  const env = { HOME: home, LOGNAME: 'me', SHELL: '/bin/sh', PATH: '/usr/bin:/bin', ...variables };
  const { status, stdout } = spawnSync(env.SHELL, ['-c', `exec 2>&1\n${command}`], {
    cwd: env.HOME,
    env,
    input,
    encoding: 'utf8',
    timeout: 20_000,
  });
  return { status, output: stdout };
}

/** As cron calls a wrapped line, whoever runs the tests. */
export function runWrapped(entry: CronEntry, home: string): ReturnType<typeof runAsCron> {
  return runAsCron({ ...entry, variables: { ...entry.variables, RUNNER_CALLED_BY: 'cron' } }, home);
}
