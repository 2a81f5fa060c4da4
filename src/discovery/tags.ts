import { nearestSetting, type ScriptSetting, scriptSettings } from '../settings/script-settings.ts';
import type { ScriptOptions } from '../settings/settings.ts';
import type { Problem } from '../settings/table.ts';
import { shellWord } from '../system/base/values.ts';

/** `slashes`: JavaScript and the like. `hashes`: shells, Python, Perl, Ruby. `php`: both, within `<?php`. */
export type CommentStyle = 'slashes' | 'hashes' | 'php';

interface CommentLine {
  /** Counted from 1. */
  readonly line: number;
  /** Without comment signs. */
  readonly text: string;
}

type CommentBlock = readonly CommentLine[];

interface Markers {
  readonly line: RegExp;
  readonly opensBlock: boolean;
}

const markers: Readonly<Record<CommentStyle, Markers>> = {
  slashes: { line: /^\/\/+/, opensBlock: true },
  hashes: { line: /^#+/, opensBlock: false },
  // `#[` begins an attribute.
  php: { line: /^(?:\/\/+|#+(?!\[))/, opensBlock: true },
};

/** The comment blocks of a script; a comment beside code is none. */
export function readCommentBlocks(source: string, style: CommentStyle): readonly CommentBlock[] {
  const lines = codeLines(source, style);
  const blocks: CommentBlock[] = [];
  for (let index = 0; index < lines.length; ) {
    const block = readBlockAt(lines, index, markers[style]);
    if (block) blocks.push(block);
    index += block?.length ?? 1;
  }
  return blocks;
}

/** Removes what may precede the first comment: the `#!` line and the tag that opens PHP. */
function codeLines(source: string, style: CommentStyle): readonly CommentLine[] {
  const lines = source.replace(/^\ufeff/, '').split('\n');
  return lines.map((line, index) => {
    if (index === 0 && line.startsWith('#!')) return { line: 1, text: '' };
    const code = style === 'php' ? line.replace(/^\s*<\?(?:php\b)?/, '') : line;
    return { line: index + 1, text: code.trim() };
  });
}

function readBlockAt(lines: readonly CommentLine[], index: number, { line, opensBlock }: Markers): CommentBlock | null {
  const text = lines[index]?.text ?? '';
  if (opensBlock && text.startsWith('/*')) return readEnclosed(lines, index);
  return line.test(text) ? readRun(lines, index, line) : null;
}

function readRun(lines: readonly CommentLine[], start: number, marker: RegExp): CommentBlock {
  const end = findFrom(lines, start, (text) => !marker.test(text));
  return lines.slice(start, end).map(({ line, text }) => ({ line, text: text.replace(marker, '').trim() }));
}

function readEnclosed(lines: readonly CommentLine[], start: number): CommentBlock {
  const isClosedAtOnce = lines[start]?.text.includes('*/', 2);
  const end = isClosedAtOnce ? start : findFrom(lines, start + 1, (text) => text.includes('*/'));
  return lines
    .slice(start, end + 1)
    .map(({ line, text }, index) => ({ line, text: stripEnclosing(text, index === 0) }));
}

function stripEnclosing(text: string, isFirst: boolean): string {
  const opened = isFirst ? text.slice(2) : text;
  const [inside = ''] = opened.split('*/', 1);
  return inside.replace(/^\s*\*+/, '').trim();
}

function findFrom(lines: readonly CommentLine[], start: number, isWanted: (text: string) => boolean): number {
  let index = start;
  while (index < lines.length && !isWanted(lines[index]?.text ?? '')) index++;
  return index;
}

/** Tags of JSDoc, TSDoc, phpDocumentor, YARD and Doxygen: they are not the runner's, however similar. */
const foreignTags: ReadonlySet<string> = new Set(
  `abstract access alias alpha api arg argument async attention attr attribute augments author beta borrows
  brief bug callback category class classdesc code const constant constructor constructs copyright date decorator
  default defaultvalue deprecated desc description details emits endcode enum event eventproperty example
  examples exception exports extends external file fileoverview filesource fires flow for format func function
  generator global group hideconstructor hidden host ignore implements import inherit inheritdoc inline inner
  instance interface internal jest kind label lends lib license link linkcode linkplain listens main mainpage
  member memberof method methods migration mixes mixin mod module name namespace nocheck note noflow nosideeffects
  ns nullable option options overload override overview owner package packagedocumentation page par param parent
  pre preserve private privateremarks prop property protected prettier public raise raises readonly remark remarks
  requires ret retval return returns satisfies sealed section see seealso select short since source static
  subpackage suppress template templates test tests text this throw throws title todo toc ts-check
  ts-expect-error ts-ignore ts-nocheck tparam tutorial type typedef typeparam types usage use uses value var
  variation verbatim version virtual visibility vitest-environment warning yield yieldparam yieldreturn yields`.split(
    /\s+/,
  ),
);

function isForeignTag(name: string): boolean {
  return foreignTags.has(name);
}

/** The options in the tags of a script, and all faults in them. */
export interface ScriptTags {
  readonly options: ScriptOptions;
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
}

interface Tag {
  readonly name: string;
  readonly line: number;
  readonly value: string;
}

const noTags: ScriptTags = { options: {}, problems: [], warnings: [] };
const settingsByTag = new Map(scriptSettings.map((setting) => [setting.tag, setting]));

/** Reads the tags in the first comment block of `source`; `file` is its name in messages. */
export function readScriptTags(source: string, style: CommentStyle, file: string): ScriptTags {
  if (!source.includes('@')) return noTags;
  const [block = [], ...laterBlocks] = readCommentBlocks(source, style);
  const tags = parseTags(block);
  const readings = [...settingsByTag.values()].map((setting) =>
    readSetting(
      setting,
      tags.filter((tag) => tag.name === setting.tag),
      file,
    ),
  );
  return {
    options: Object.assign({}, ...readings.map((reading) => reading.options)),
    problems: readings.flatMap((reading) => reading.problems).toSorted(byLine),
    warnings: [...warnOfNearMisses(tags, file), ...warnOfUnread(laterBlocks.flatMap(parseTags), file)],
  };
}

function byLine(one: Problem, other: Problem): number {
  return (one.line ?? 0) - (other.line ?? 0);
}

/**
 * A tag's value is the rest of its line, up to another tag of the runner; only a description continues until the next
 * tag.
 */
function parseTags(block: CommentBlock): readonly Tag[] {
  const tags: Tag[] = [];
  for (const { line, text } of block) {
    const found = parseTagLine(text, line);
    const last = tags.at(-1);
    if (found.length > 0) tags.push(...found);
    else if (last?.name === 'description') {
      tags[tags.length - 1] = { ...last, value: `${last.value} ${text}` };
    }
  }
  return tags;
}

/** `@timeout 20s`, `@timeout: 20s`, `@timeout=20s`; `@timeout 20s @retries 2` are two tags. */
function parseTagLine(text: string, line: number): readonly Tag[] {
  const [, name, rest = ''] = /^@([A-Za-z][\w-]*)(?![\w/-])(?:[:=]|\s+[:=](?=\s))?\s*(.*)$/.exec(text) ?? [];
  if (name === undefined) return [];
  const setting = settingsByTag.get(name);
  const next = setting === undefined || setting.isProse ? -1 : findSecondTag(rest, setting);
  if (next === -1) return [{ name, line, value: rest.trim() }];
  return [{ name, line, value: rest.slice(0, next).trim() }, ...parseTagLine(rest.slice(next), line)];
}

/** The index in a tag's value at which another tag of the runner begins, or a misspelled one; -1: none. */
function findSecondTag(value: string, setting?: ScriptSetting): number {
  const isRight = (text: string): boolean => setting !== undefined && 'value' in setting.read(tidy(text));
  const isMisspelled = (name: string, index: number): boolean =>
    nearestSetting(name, settingsByTag.keys()) !== null && !isRight(value) && isRight(value.slice(0, index));
  const second = [...value.matchAll(/(?<=^|\s)@([a-z][a-z-]*)(?=[\s:=]|$)/gi)].find(
    ({ 1: name = '', index }) => settingsByTag.has(name) || isMisspelled(name, index),
  );
  return second?.index ?? -1;
}

type Reading = Pick<ScriptTags, 'options' | 'problems'>;

function readSetting(setting: ScriptSetting, tags: readonly Tag[], file: string): Reading {
  const [first] = tags;
  if (!first || isEmptyDescription(first)) return { options: {}, problems: [] };
  const readings = tags.map((tag) => readTag(setting, tag, file));
  const problems = [...readings.flatMap((reading) => reading.problems)];
  if (setting.isProse) problems.push(...tags.flatMap((tag) => refuseSecondTag(setting, tag, file)));
  if (!setting.addsUp) problems.push(...repetitions(setting, tags, file));
  return {
    options: combine(
      setting,
      readings.map((reading) => reading.options),
    ),
    problems,
  };
}

function readTag(setting: ScriptSetting, tag: Tag, file: string): Reading {
  const reading = setting.read(tidy(tag.value));
  if ('value' in reading) return { options: { [setting.name]: reading.value }, problems: [] };
  return { options: {}, problems: [problemOf(setting, tag, file, reading.expected)] };
}

/** `@expect done @timeout 20s`: a searched text may contain anything, so the meaning is unclear. */
function refuseSecondTag(setting: ScriptSetting, tag: Tag, file: string): readonly Problem[] {
  const { name, value } = tag;
  const next = name === 'description' ? -1 : findSecondTag(value);
  if (next === -1) return [];
  const lines = `\`@${name} ${value.slice(0, next).trim()}\`, then \`${value.slice(next)}\``;
  const statement = `shares its line with another tag; write each tag on a line of its own: ${lines}`;
  return [{ ...problemOf(setting, tag, file, 'one tag'), statement }];
}

function tidy(value: string): string {
  return value.replace(/[\s\p{Cc}]+/gu, ' ').trim();
}

/** Other tools' templates leave it empty. */
function isEmptyDescription(tag: Tag): boolean {
  return tag.name === 'description' && tidy(tag.value) === '';
}

function problemOf({ isSecret }: ScriptSetting, tag: Tag, file: string, expected: string): Problem {
  return { file, line: tag.line, setting: `@${tag.name}`, expected, found: tag.value, isSecret: isSecret === true };
}

function repetitions(setting: ScriptSetting, [first, ...repeated]: readonly Tag[], file: string): readonly Problem[] {
  const statement = `is given twice (also in line ${first?.line}); keep one of them`;
  return repeated.map((tag) => ({ ...problemOf(setting, tag, file, 'one value'), statement }));
}

/** Lists add up; any other repeated tag is reported elsewhere. */
function combine({ name, addsUp }: ScriptSetting, options: readonly ScriptOptions[]): ScriptOptions {
  const words = new Set(options.flatMap((one) => (one as Readonly<Record<string, unknown>>)[name] ?? []));
  return Object.assign({}, ...options, addsUp && words.size > 0 && { [name]: [...words] });
}

function warnOfNearMisses(tags: readonly Tag[], file: string): readonly string[] {
  return tags.flatMap(({ name, line }) => {
    if (settingsByTag.has(name) || isForeignTag(name)) return [];
    if (/^(?:dis|en)abled?$/i.test(name)) return [describeDisabling(name, file, line)];
    if (/^(?:dot-?env|env(?:ironment)?[-_]?file)$/i.test(name)) return [describeEnvFile(name, file, line)];
    const nearest = nearestSetting(name, settingsByTag.keys());
    if (nearest === null) return [];
    return [`${file}:${line}: @${name} is not known and has no effect; did you mean @${nearest}?`];
  });
}

function describeDisabling(name: string, file: string, line: number): string {
  const cure = `\`npx folder-runner disable ${shellWord(file)}\` keeps the script from running`;
  return `${file}:${line}: @${name} is not known and has no effect; ${cure}`;
}

function describeEnvFile(name: string, file: string, line: number): string {
  const cure = "a script reads such a file itself: `set -a; . ./.env` in a shell, process.loadEnvFile('.env') in Node";
  return `${file}:${line}: @${name} is not known and has no effect; ${cure}`;
}

/** JSDoc has `@description`, too, and every function may have one. */
function warnOfUnread(tags: readonly Tag[], file: string): readonly string[] {
  return tags
    .filter(({ name }) => settingsByTag.has(name) && !isForeignTag(name))
    .map(({ name, line }) => `${file}:${line}: @${name} has no effect here; tags belong in the first comment block`);
}
