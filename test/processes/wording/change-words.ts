import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { globSync } from 'glob';
import ts from 'typescript';

const project = join(import.meta.dirname, '../../..');

/** Words that are no sentences: SQL, the rules and times that people write, files and lines that are made, and the page. */
const withoutSentences = [
  'src/store/{sqlite,server,statements,move,external,shared,spool}/**',
  'src/store/{schema,tables,columns}.ts',
  'src/schedule/**',
  'src/system/base/local-time.ts',
  'src/hosting/crontab/**',
  'src/commands/site/templates.ts',
  'src/commands/site/completion.ts',
  'src/dashboard/page/**',
  'src/dashboard/client/**',
];

/** Copies the product's sources into a folder, from where they run, with other words in each of its sentences. */
export function copyWithOtherWords(folder: string, seed: string): number {
  cpSync(join(project, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(project, 'node_modules'), join(folder, 'node_modules'));
  const kept = new Set(globSync(withoutSentences, { cwd: project, nodir: true }));
  let changed = 0;
  for (const file of globSync('src/**/*.{ts,cts,tsx,json}', { cwd: project })) {
    const source = readFileSync(join(project, file), 'utf8');
    const edits = kept.has(file) || !file.endsWith('.ts') ? [] : findSentences(file, source, seed);
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), apply(source, edits));
    changed += edits.length;
  }
  return changed;
}

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

function apply(source: string, edits: readonly Edit[]): string {
  let text = source;
  for (const { start, end, text: other } of edits.toSorted((one, two) => two.start - one.start)) {
    text = text.slice(0, start) + other + text.slice(end);
  }
  return text;
}

/** Each place has words of its own, so that a sentence and its copy elsewhere become two. */
function findSentences(file: string, source: string, seed: string): readonly Edit[] {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const edits: Edit[] = [];
  /** The parts of one text: what stands in backticks is a command, whose end may be in a later part. */
  const change = (parts: readonly ts.Node[]): void => {
    let isCommand = false;
    for (const node of parts) {
      const [start, end] = [node.getStart(tree), node.getEnd()];
      const changed = source
        .slice(start + 1, end - 1)
        .split(/(\\?`|\\[nrtu'"])/)
        .map((piece, index) => {
          if (index % 2 === 0) return isCommand ? piece : changeWords(piece, `${seed}:${file}:${start}`);
          if (piece.endsWith('`')) isCommand = !isCommand;
          return piece;
        });
      edits.push({ start: start + 1, end: end - 1, text: changed.join('') });
    }
  };
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isTaggedTemplateExpression(node) || ts.isImportDeclaration(node)) return;
    if (ts.isTemplateExpression(node)) {
      const parts = [node.head, ...node.templateSpans.map(({ literal }) => literal)];
      if (isSentence(parts.map((part) => part.text).join('0'))) change(parts);
    } else if (ts.isStringLiteralLike(node) && isSentence(node.text) && !isAsked(node)) change([node]);
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return edits;
}

/** What a text is compared with, searched for or cut by is no sentence: whoever asks for words must see others. */
function isAsked(node: ts.Node): boolean {
  const { parent } = node;
  if (ts.isPropertyAssignment(parent) && parent.name === node) return true;
  if (ts.isPropertyAccessExpression(parent)) return true;
  if (ts.isCaseClause(parent)) return true;
  if (ts.isBinaryExpression(parent)) return /^[!=]==$/.test(parent.operatorToken.getText());
  if (!ts.isCallExpression(parent)) return false;
  // Code, and the operators and columns of a query.
  if (/(?:^runIn\w+|^\w*eb|\b(?:where|having|on|orderBy|select|cast)(?:Ref)?)$/.test(parent.expression.getText()))
    return true;
  if (!ts.isPropertyAccessExpression(parent.expression)) return false;
  return /^(?:startsWith|endsWith|includes|indexOf|split|replace|replaceAll)$/.test(parent.expression.name.text);
}

const word = /(?<=^|[\s(`'"}])[A-Za-z]?[a-z]{2,}(?=$|[\s.,;:?!)`'"]|\$\{)/g;

/** Two words and a blank, and nothing of a program, a header, a style or a page. */
function isSentence(text: string): boolean {
  if (/[{}<>|&$#\n]|\s=|=[\s="']|\w\(|^[-[<]|^[\w.]+ as \w+$/.test(text)) return false;
  return text.includes(' ') && (text.match(word) ?? []).length >= 2;
}

function changeWords(text: string, seed: string): string {
  return text.replace(word, (each) => {
    const bytes = createHash('sha256').update(`${seed}:${each}`).digest();
    const letters = Array.from(each, (_, index) => String.fromCharCode(97 + ((bytes[index % 32] ?? 0) % 26))).join('');
    return /^[A-Z]/.test(each) ? letters.charAt(0).toUpperCase() + letters.slice(1) : letters;
  });
}
