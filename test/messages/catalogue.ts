import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Phrase } from './find-phrases.ts';

/** One message of the product, as a user reads it. */
export interface Message {
  /** Its key in the catalogue; the product does not show it. It stays when the wording changes. */
  readonly code: string;
  readonly text: string;
  /** For each character of the text, whether it belongs to a value, such as a path. */
  readonly isValue: readonly boolean[];
  /** What to do: the end of the text; null: nothing, for the reason that its section gives. */
  readonly cure: string | null;
  /** Why no message of its section needs a cure; null: each has one. */
  readonly without: string | null;
  /** What the command is called with so that it says this, and nothing else, and exits 2; null: not by a call alone. */
  readonly call: readonly string[] | null;
  /** `runs.txt:12` */
  readonly place: string;
}

const folder = join(import.meta.dirname, 'catalogue');

/**
 * A line for each message, `code: text`. In the text, values stand within ‹ and ›, the cure begins at →, and ⏎ is a line
 * break. Under a heading `## No cure needed: …` there are no cures. A line `$ runner …` below is a call that says it.
 */
export function readCatalogue(): Message[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.txt'))
    .flatMap(readPage);
}

function readPage(name: string): Message[] {
  const messages: Message[] = [];
  let without: string | null = null;
  for (const [index, line] of readFileSync(join(folder, name), 'utf8').split('\n').entries()) {
    const last = messages.at(-1);
    const [, code, marked] = /^([a-z0-9-]+): (.+)$/.exec(line) ?? [];
    if (line.startsWith('## ')) without = /^## No cure needed: (.+)$/.exec(line)?.[1] ?? null;
    else if (code !== undefined && marked !== undefined)
      messages.push({ code, ...readMarks(marked), without, call: null, place: `${name}:${index + 1}` });
    else if (last !== undefined && line.startsWith('$ runner '))
      messages[messages.length - 1] = { ...last, call: readCall(line.slice('$ runner '.length)) };
    else if (line !== '' && !line.startsWith('# '))
      throw new Error(`${name}:${index + 1} is no line of the catalogue.`);
  }
  return messages;
}

/** Words between blanks; one in single quotes may hold some. */
function readCall(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

function readMarks(marked: string): Pick<Message, 'text' | 'isValue' | 'cure'> {
  const isValue: boolean[] = [];
  let text = '';
  let depth = 0;
  let cureAt: number | null = null;
  for (const letter of marked.replaceAll('⏎', '\n').replaceAll(' → ', '\n→')) {
    if (letter === '‹') depth += 1;
    else if (letter === '›') depth -= 1;
    else if (letter === '→') cureAt = text.length;
    else {
      text += letter;
      isValue.push(...Array.from({ length: letter.length }, () => depth > 0));
    }
  }
  return { text, isValue, cure: cureAt === null ? null : text.slice(cureAt) };
}

/** Where the phrase stands in the text: from, to of each constant part; null: nowhere. */
function findIn({ text }: Message, { constants }: Phrase): [number, number][] | null {
  const places: [number, number][] = [];
  let from = 0;
  for (const constant of constants) {
    const at = text.indexOf(constant, from);
    if (at === -1) return null;
    from = at + constant.length;
    places.push([at, from]);
  }
  return places;
}

/** The phrases that no message of the catalogue has. */
export function findUnlisted(phrases: readonly Phrase[], messages: readonly Message[]): Phrase[] {
  return phrases.filter((phrase) => !messages.some((message) => findIn(message, phrase) !== null));
}

/** The words of the message that stand neither in the source nor within a value; null: there are none. */
export function findUnknownWords(message: Message, phrases: readonly Phrase[]): string | null {
  const isKnown = [...message.isValue];
  for (const phrase of phrases) {
    for (const [from, to] of findIn(message, phrase) ?? []) isKnown.fill(true, from, to);
  }
  const unknown = [...message.text].map((letter, index) => (isKnown[index] ? '…' : letter)).join('');
  return /[\p{L}\p{N}]/u.test(unknown) ? unknown.replace(/…+/g, '…') : null;
}
