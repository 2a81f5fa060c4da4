import { readFileSync } from 'node:fs';

/** What a user needs to reach whoever publishes, and how a fork sets each. */
const NEEDED: Readonly<Record<string, string>> = {
  repository: 'npm pkg set repository.type=git repository.url=git+https://github.com/<owner>/<name>.git',
  bugs: 'npm pkg set bugs.url=https://github.com/<owner>/<name>/issues',
  homepage: 'npm pkg set homepage=https://github.com/<owner>/<name>#readme',
  author: 'npm pkg set author="<name> <mail address>"',
};

/** Runs before `npm publish`, in the folder of the package. */
const packageJson: Readonly<Record<string, unknown>> = JSON.parse(readFileSync('package.json', 'utf8'));
const missing = Object.entries(NEEDED).filter(([field]) => !packageJson[field]);
if (missing.length > 0) {
  const cures = missing.map(([field, command]) => `  ${field}: ${command}\n`).join('');
  process.stderr.write(`Not published: package.json lacks ${missing.length} of the fields that users need.\n${cures}`);
  process.exitCode = 1;
}
