import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/*
 * Over all runs of vitest, what failed and what was skipped: a test that ran on three versions of Node counts three
 * times. Last, as of a long output it is the end that people are shown. Any Node runs this.
 */

/** A few may pass at their second try alone on a machine that is several times slower; more are no accident. */
const MOST_ACCIDENTS = 3;

const [folder, clone] = process.argv.slice(2);
const skippedIn = new Map();
const failures = [];
let [passed, skipped, accidents] = [0, 0, 0];

for (const file of readdirSync(folder).sort()) {
  if (file.endsWith('.accidents')) nameAccidents(readFileSync(join(folder, file), 'utf8'));
  if (file.endsWith('.json')) add(file, JSON.parse(readFileSync(join(folder, file), 'utf8')));
}
for (const [line, files] of skippedIn) console.log(`SKIPPED in ${files.join(', ')}: ${line}`);
for (const line of failures) console.log(line);
console.log(`${passed} passed, ${failures.length} failed, ${skipped} skipped`);
process.exitCode = passed > 0 && failures.length === 0 && accidents <= MOST_ACCIDENTS ? 0 : 1;

/** Each is told, as each is a bug to be found. Why it failed stands where it ran. */
function nameAccidents(text) {
  for (const line of text.match(/^(FLAKY|UNHANDLED): .{0,220}/gm) ?? []) {
    console.log(line);
    if (line.startsWith('FLAKY')) accidents += 1;
  }
}

function add(file, results) {
  passed += results.numPassedTests;
  for (const { name, status, message, assertionResults } of results.testResults) {
    const path = relative(clone, name);
    const failed = assertionResults.filter((test) => test.status === 'failed');
    for (const test of failed) fail(file, `${path}: ${test.fullName}`, test.failureMessages.join('\n'));
    if (status === 'failed' && failed.length === 0) fail(file, `${path}: the file itself`, message);
    for (const test of assertionResults.filter((test) => !['passed', 'failed'].includes(test.status))) {
      const line = `${path}: ${test.fullName}`;
      skippedIn.set(line, [...(skippedIn.get(line) ?? []), file.replace(/\.json$/, '')]);
      skipped += 1;
    }
  }
}

/** Its stack stands where it ran; here, many fit what is left. Vitest's word for a time limit is none. */
function fail(file, test, why) {
  const reason = why.replace('Error: STACK_TRACE_ERROR', 'longer than its time limit').replaceAll(/\s+/g, ' ');
  failures.push(`FAILED in ${file}: ${test}: ${reason.slice(0, 200)}`);
}
