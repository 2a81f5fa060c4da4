import { describe, expect, test } from 'vitest';
import { makeFakeCrontab } from '../support/fake-crontab.ts';
import { callCommand } from '../support/in-root.ts';
import { cronEnv } from '../support/run-pass.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { findUnknownWords, findUnlisted, type Message, readCatalogue } from './catalogue.ts';
import { findPhrases } from './find-phrases.ts';

const phrases = findPhrases(new URL('../..', import.meta.url).pathname);
const messages = readCatalogue();

const placesOf = (wrong: readonly Message[]): string[] => wrong.map(({ place, text }) => `${place} ${text}`);

describe('the catalogue and the source', () => {
  test('every message of the source stands in the catalogue', () => {
    const unlisted = findUnlisted(phrases, messages);
    expect(unlisted.map(({ file, line, constants }) => `src/${file}:${line} ${constants.join('‹…›')}`)).toEqual([]);
  });

  test('every message of the catalogue consists of words of the source, and of values', () => {
    const drifted = messages.map((message) => [message.place, findUnknownWords(message, phrases)]);
    expect(drifted.filter(([, words]) => words !== null)).toEqual([]);
  });

  test('a message that is missing, and one that is no longer in the source, are found', () => {
    const [phrase] = phrases.filter(({ constants }) => constants[0] === 'There is no command ');
    const others = messages.filter(({ text }) => !text.startsWith('There is no command '));
    expect(findUnlisted(phrases, others)).toContain(phrase);
    const [message] = messages.filter(({ code }) => code === 'queue-closed-open-again') as [Message];
    const text = message.text.replace('closed', 'opened');
    expect(findUnknownWords({ ...message, text, isValue: Array.from(text, () => false) }, phrases)).toContain('opened');
  });

  test('the source is read to the end of each message, over functions, tables and parameters', () => {
    expect(phrases.length).toBeGreaterThan(1000);
    // A parameter of a function in another file, a method of a table, a part of a template.
    for (const words of ['a whole number from 1 to ', 'refuses this user or password (', '; did you mean ']) {
      expect(phrases.some(({ constants }) => constants.some((constant) => constant.includes(words)))).toBe(true);
    }
  });
});

describe('each message', () => {
  test('has a code of its own', () => {
    const codes = messages.map(({ code }) => code);
    expect(codes.filter((code, index) => codes.indexOf(code) !== index)).toEqual([]);
  });

  test('has a cure, or stands under the reason why it needs none', () => {
    expect(placesOf(messages.filter(({ cure, without }) => (cure === null) === (without === null)))).toEqual([]);
  });

  test('has at most 400 characters in all, and 250 before its cure', () => {
    const isLong = ({ text, cure }: Message): boolean => text.length > 440 || text.length - (cure?.length ?? 0) > 300;
    expect(placesOf(messages.filter(isLong))).toEqual([]);
  });

  test('which is a sentence ends as one', () => {
    const isSentence = ({ text }: Message): boolean => /^[A-Z]/.test(text) && /[.;] [A-Z]/.test(text);
    const isOpen = ({ text, isValue }: Message): boolean => !/[.?!)`…:]$/.test(text) && !isValue.at(-1);
    expect(placesOf(messages.filter((message) => isSentence(message) && isOpen(message)))).toEqual([]);
  });

  test.each([
    ['no stack', /^\s+at .+:\d+:\d+/m],
    ['no two blanks, and none at its end', / {2}|\s$/],
    ['no command, option or setting that expects something', /\bexpects\b/],
    [
      'no relative clause without its noun',
      /(?:^|[;:.] )(?:What|Who|what|who) (?:is|was|can|has|may|fails)\b|\bwhoever\b/,
    ],
    ['no "is no …" for "is not a …"', /(?<!\b[Tt]here )\bis no (?!longer\b)/],
    ['no "so many" for a maximum', /\bso many\b(?! crons)/],
    ['no word for the machinery of the code', /\bundefined\b|\[object |\bNaN\b/],
  ])('has %s', (_, form) => {
    const ours = ({ text, isValue }: Message): string =>
      [...text].map((each, at) => (isValue[at] ? '…' : each)).join('');
    expect(placesOf(messages.filter((message) => form.test(ours(message))))).toEqual([]);
  });
});

describe('the command says exactly', () => {
  const called = messages.filter(({ call }) => call !== null);

  test('what a good part of the messages of its wrong use are', () => expect(called.length).toBeGreaterThan(60));

  test.each(called.map((message) => [message.code, message] as const))('%s', async (_, { text, call }) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/import.sh': 'echo\n', 'jobs/queue/mail/welcome.sh': 'echo\n' });
    // Not every machine has a crontab.
    const { PATH, FAKE_CRONTAB } = makeFakeCrontab().env;
    const env = { ...cronEnv(root), PATH, FAKE_CRONTAB };
    const { status, stderr } = await callCommand(call ?? [], { cwd: root, env });
    expect(stderr.replaceAll(root, '/home/me/site')).toBe(`runner: ${text}\n`);
    expect(status).toBe(2);
  });
});
