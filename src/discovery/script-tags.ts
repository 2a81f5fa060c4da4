import { nearestName } from '../config/near-miss.ts';
import type { Problem } from '../config/problem.ts';
import type { ScriptOptions } from '../config/script-options.ts';
import { type ScriptSetting, scriptSettings } from '../config/script-settings.ts';
import { type CommentBlock, type CommentStyle, readCommentBlocks } from './comment-block.ts';
import { isForeignTag } from './foreign-tags.ts';

/** What the tags of a script say, and all that is wrong with them. */
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
const accumulating: ReadonlySet<string> = new Set(['env', 'tags']);

/** Reads the tags in the first comment block of `source`; `file` is how messages name it. */
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
    warnings: [
      ...warnOfNearMisses(tags, file),
      ...warnOfUnread(laterBlocks.flatMap(parseTags), file),
    ],
  };
}

function byLine(one: Problem, other: Problem): number {
  return (one.line ?? 0) - (other.line ?? 0);
}

/** A tag's value is the rest of its line; only a description goes on until the next tag. */
function parseTags(block: CommentBlock): readonly Tag[] {
  const tags: Tag[] = [];
  for (const { line, text } of block) {
    const [, name, value = ''] = /^@([A-Za-z][\w-]*)(?![\w/-])\s*(.*)$/.exec(text) ?? [];
    const last = tags.at(-1);
    if (name !== undefined) tags.push({ name, line, value: value.trim() });
    else if (last?.name === 'description') {
      tags[tags.length - 1] = { ...last, value: `${last.value} ${text}` };
    }
  }
  return tags;
}

type Reading = Pick<ScriptTags, 'options' | 'problems'>;

function readSetting(setting: ScriptSetting, tags: readonly Tag[], file: string): Reading {
  const [first] = tags;
  if (!first || isEmptyDescription(first)) return { options: {}, problems: [] };
  const readings = tags.map((tag) => readTag(setting, tag, file));
  const problems = [...readings.flatMap((reading) => reading.problems)];
  if (!accumulating.has(setting.tag)) problems.push(...repetitions(tags, file));
  return { options: combine(readings.map((reading) => reading.options)), problems };
}

function readTag(setting: ScriptSetting, tag: Tag, file: string): Reading {
  const reading = setting.read(tidy(tag.value));
  if ('value' in reading) return { options: reading.value, problems: [] };
  return { options: {}, problems: [problemOf(tag, file, reading.expected)] };
}

function tidy(value: string): string {
  return value.replace(/[\s\p{Cc}]+/gu, ' ').trim();
}

/** Other people's templates leave it empty. */
function isEmptyDescription(tag: Tag): boolean {
  return tag.name === 'description' && tidy(tag.value) === '';
}

function problemOf(tag: Tag, file: string, expected: string): Problem {
  return { file, line: tag.line, setting: `@${tag.name}`, expected, found: tag.value };
}

function repetitions([first, ...repeated]: readonly Tag[], file: string): readonly Problem[] {
  const expected = `to be given only once (it is in line ${first?.line} too)`;
  return repeated.map((tag) => problemOf(tag, file, expected));
}

/** `@env` and `@tags` add up; of a repeated tag that does not, the problem is told elsewhere. */
function combine(options: readonly ScriptOptions[]): ScriptOptions {
  const env = unique(options.flatMap((one) => one.env ?? []));
  const tags = unique(options.flatMap((one) => one.tags ?? []));
  return Object.assign({}, ...options, env.length > 0 && { env }, tags.length > 0 && { tags });
}

function unique(words: readonly string[]): readonly string[] {
  return [...new Set(words)];
}

function warnOfNearMisses(tags: readonly Tag[], file: string): readonly string[] {
  return tags.flatMap(({ name, line }) => {
    if (settingsByTag.has(name) || isForeignTag(name)) return [];
    const nearest = nearestName(name, settingsByTag.keys());
    if (nearest === null) return [];
    return [`${file}:${line}: @${name} is not known and has no effect; did you mean @${nearest}?`];
  });
}

/** JSDoc has `@description` too, and every function may have one. */
function warnOfUnread(tags: readonly Tag[], file: string): readonly string[] {
  return tags
    .filter(({ name }) => settingsByTag.has(name) && !isForeignTag(name))
    .map(
      ({ name, line }) =>
        `${file}:${line}: @${name} has no effect here; tags belong in the first comment block`,
    );
}
