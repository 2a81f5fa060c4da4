/** One command of a shell line: `nice node bin.cjs hourly` of `cd site && nice node bin.cjs hourly >/dev/null`. */
export interface ShellCommand {
  readonly words: readonly string[];
  /** A word depends on what only a shell can tell (`$(date)`, `$X`): it is not what would be run. */
  readonly isCertain: boolean;
}

type Kind = 'word' | 'operator' | 'redirection' | 'gap';

interface Token {
  readonly kind: Kind;
  readonly text: string;
}

/** What stands between parentheses, with so many more of them inside. */
const nested = (depth: number): string =>
  depth === 0 ? '[^()]*' : String.raw`(?:[^()]|\(${nested(depth - 1)}\))*`;

const substitution = String.raw`\$\(${nested(4)}\)`;

/**
 * The forms of the shell's grammar that crontab lines are made of, each at the place where the last
 * one ended. A word can have several parts: `a"b c"'d'`.
 */
const forms: readonly (readonly [Kind, RegExp])[] = [
  ['gap', /[ \t]+/y],
  ['redirection', /\d*(?:>>|<<|[<>])&?[ \t]*[^\s;&|<>]*|&>>?[ \t]*[^\s;&|<>]*/y],
  ['operator', /&&|\|\||[;&|()]|\n/y],
  [
    'word',
    new RegExp(
      String.raw`(?:\\[\s\S]|'[^']*'|"(?:\\[\s\S]|[^"\\])*"|${substitution}|[^\s;&|<>()\\'"])+`,
      'y',
    ),
  ],
];

/** The commands of a line; null where its quotes are not closed, or it is not understood otherwise. */
export function parseShellLine(line: string, home: string): ShellCommand[] | null {
  const tokens = tokenize(line);
  if (tokens === null) return null;
  const commands: Token[][] = [[]];
  for (const token of tokens) {
    if (token.kind === 'operator') commands.push([]);
    else if (token.kind === 'word') commands.at(-1)?.push(token);
  }
  return commands
    .filter((words) => words.length > 0)
    .map((words) => ({
      words: words.map(({ text }) => expand(text, home)),
      isCertain: words.every(({ text }) => !dependsOnShell(text)),
    }));
}

function tokenize(line: string): Token[] | null {
  const tokens: Token[] = [];
  for (let at = 0; at < line.length; ) {
    const token = tokenAt(line, at);
    if (token === null) return null;
    tokens.push(token);
    at += token.text.length;
  }
  return tokens;
}

function tokenAt(line: string, at: number): Token | null {
  for (const [kind, form] of forms) {
    form.lastIndex = at;
    const text = form.exec(line)?.[0];
    if (text) return { kind, text };
  }
  return null;
}

/** Without quotes, and with the home folder that cron sets. */
function expand(word: string, home: string): string {
  return word.replace(/^~(?=\/|$)/, home).replaceAll(parts, (part, escaped, single, double) => {
    if (escaped !== undefined) return escaped;
    if (single !== undefined) return single;
    if (double !== undefined) return withHome(double, home).replaceAll(/\\([\\"$`])/g, '$1');
    return withHome(part, home);
  });
}

const parts = /\\([\s\S])|'([^']*)'|"((?:\\[\s\S]|[^"\\])*)"|[^\\'"]+/g;

function withHome(text: string, home: string): string {
  return text.replaceAll(/\$HOME\b|\$\{HOME\}/g, home);
}

function dependsOnShell(word: string): boolean {
  const unquoted = word.replaceAll(/\\[\s\S]|'[^']*'/g, '');
  return /[$`]/.test(unquoted.replaceAll(/\$HOME\b|\$\{HOME\}/g, '')) || /[*?[]/.test(unquoted);
}
