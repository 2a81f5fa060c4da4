import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Launch } from '../../../src/discovery/script.ts';
import { findUnset } from '../../../src/discovery/variables.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const shell: Launch = { kind: 'program', command: ['/bin/sh', 'x'] };
const node: Launch = { kind: 'node' };
const program: Launch = { kind: 'program', command: ['python3', 'x'] };

function namesIn(source: string, launch: Launch, held: readonly string[] = []): readonly string[] {
  const path = join(makeTemporaryRoot(), 'script');
  writeFileSync(path, source);
  return findUnset({ path, launch }, { given: new Set(['GIVEN']), held: new Set(held) }).map(({ name }) => name);
}

test.each([
  ['echo "$SHOP_TOKEN"', ['SHOP_TOKEN']],
  ['curl -u "me:${SHOP_TOKEN%x}" "$GIVEN" $HOME', ['SHOP_TOKEN']],
  [': "${SHOP_TOKEN:?is needed}"', ['SHOP_TOKEN']],
  ['echo "don\'t" $ONE_A "it\'s" $TWO_B', ['ONE_A', 'TWO_B']],
  ['echo ${SHOP:-none} ${OTHER=x} ${THIRD+y}', []],
  ['SHOP=/srv\necho "$SHOP"', []],
  ['export SHOP; for FILE in a b; do echo $FILE $SHOP; done', []],
  ['while read -r LINE REST; do echo "$LINE $REST"; done', []],
  ['[ -n "$SHOP" ] && echo "$SHOP"', []],
  ['local -a LIST; LIST+=(x); echo ${LIST[0]} $(( COUNT++ )) $COUNT', []],
  ['. ./settings.sh\necho $SHOP', []],
  ['set -a; . ~/x; echo $SHOP', []],
  ["awk '{ print $SHOP }' # $OTHER", []],
  ["cat <<'END'\n$SHOP\nEND\n", []],
  ['cat <<END\n$SHOP\nEND\n', ['SHOP']],
  ['echo \\$SHOP $RANDOM $EUID $RUNNER_ROOT $lower $1 $X', []],
])('a shell script that reads %j needs %j', (source, names) => {
  expect(namesIn(source, shell)).toEqual(names);
});

test.each([
  ['fetch(process.env.SHOP_URL, process.env["SHOP_TOKEN"])', ['SHOP_URL', 'SHOP_TOKEN']],
  ['if (!process.env.SHOP) throw new Error("no SHOP")', ['SHOP']],
  ['if (!process.env.SHOP) {\n  process.exit(1);\n}', ['SHOP']],
  ['const a = process.env.SHOP ?? "x", b = process.env.OTHER || "y"', []],
  ['if (process.env.SHOP) use(process.env.SHOP)', []],
  ['process.env.SHOP = "x"; use(process.env.SHOP)', []],
  ['// process.env.SHOP\nconst { env } = process', []],
  ['import "dotenv/config";\nuse(process.env.SHOP)', []],
  ['process.loadEnvFile("x");\nuse(process.env.SHOP)', []],
  ['use(process.env.NODE_ENV, process.env.CI)', []],
])('a Node script that reads %j needs %j', (source, names) => {
  expect(namesIn(source, node)).toEqual(names);
});

test.each([
  ["os.environ['SHOP']", ['SHOP']],
  ['os.getenv("SHOP")', ['SHOP']],
  ['os.getenv("SHOP", "x"), os.environ.get("OTHER")', []],
  ["<?php $a = getenv('SHOP'); $b = $_ENV['OTHER'] ?? 'x';", ['SHOP']],
  ["ENV['SHOP'] + ENV.fetch('OTHER') + ENV.fetch('THIRD', 'x')", ['SHOP', 'OTHER']],
  ['print $ENV{SHOP};', ['SHOP']],
  ['\x7fELF\0os.getenv("SHOP")', []],
])('a program that reads %j needs %j', (source, names) => {
  expect(namesIn(source, program)).toEqual(names);
});

test('variables of the caller count wherever they are read, even with another value at hand', () => {
  expect(namesIn('echo ${SHOP:-none}', shell, ['SHOP', 'OTHER', 'GIVEN', 'HOME'])).toEqual(['SHOP']);
});
