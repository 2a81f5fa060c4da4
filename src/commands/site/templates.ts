import type { languages } from '../shared/command.ts';

export type Language = (typeof languages)[number];

interface Template {
  /** Null: the runner's own Node runs it. */
  readonly interpreter: string | null;
  /** Around the tags, which stand at the beginning of a line each. */
  readonly comment: (lines: readonly string[]) => string;
  readonly script: string;
  readonly handler: string;
}

/** A starting point: tags, what the runner gives to it, and how it says that it failed. */
export function templateOf(language: Language, isHandler: boolean): string {
  const { interpreter, comment, script, handler } = templates[language];
  const [start, tags] = [
    interpreter === null ? '' : `#!/usr/bin/env ${interpreter}\n`,
    isHandler ? ofHandler : ofScript,
  ];
  return `${start}${comment(tags)}\n${isHandler ? handler : script}`;
}

/** True for a program with a `#!` line. Node runs the other files. */
export function isProgram(language: Language): boolean {
  return templates[language].interpreter !== null;
}

const ofScript = [
  '@description Say in one line what this script does.',
  '@timeout 10m',
  '',
  'More tags, each at the beginning of a line: @retries 2, @env SHOP_URL SHOP_TOKEN, @nice 10.',
  'The page docs/scripts.md of the package has them all.',
];

const ofHandler = [
  '@description Say in one line what this handler does with a job.',
  '@timeout 1m',
  '',
  'More tags, each at the beginning of a line: @retries 3, @retry-delay exponential, @env SHOP_URL.',
  'The page docs/handlers.md of the package describes the input of a handler, and how it ends.',
];

const block = (lines: readonly string[]): string =>
  ['/**', ...lines.map((line) => ` * ${line}`.trimEnd()), ' */'].join('\n');
const hashes = (lines: readonly string[]): string => lines.map((line) => `# ${line}`.trimEnd()).join('\n');

const templates: Readonly<Record<Language, Template>> = {
  ts: {
    interpreter: null,
    comment: block,
    script: `import type { JobContext } from 'folder-runner';

export default async ({ lastSuccess, log }: JobContext) => {
  log('looking at everything since', lastSuccess ?? 'the beginning');
  // If this throws an error, the run has failed.
};
`,
    handler: `import type { Handler } from 'folder-runner';

/** The data that \`runner add\` or your site gives to each job. */
interface Data {
  readonly to: string;
}

export default (async ({ data, attempt, log }) => {
  log(\`try \${attempt} for \${data.to}\`);
  // If this throws an error, the try has failed. The return value is the result of the job.
  return { done: true };
}) satisfies Handler<Data>;
`,
  },
  sh: {
    interpreter: 'sh',
    comment: hashes,
    script: `# The first command that fails ends the script, and the run has failed.
set -eu

# It starts in $RUNNER_ROOT, with the PATH of the runner and without a keyboard.
echo "looking at everything since \${RUNNER_LAST_SUCCESS:-the beginning}"
`,
    handler: `# The first command that fails ends the handler, and the try has failed. Exit code 75 asks for another try.
set -eu

# The job is one line of JSON on standard input: id, name, data, attempt …
job=$(cat)
echo "job $RUNNER_JOB: $job"

# If the last line of the output is a JSON object, it is the result of the job.
echo '{"done":true}'
`,
  },
  php: {
    interpreter: 'php',
    comment: (lines) => `<?php\n${block(lines)}`,
    script: `$since = getenv('RUNNER_LAST_SUCCESS') ?: 'the beginning';
echo "looking at everything since $since\\n";

// After an uncaught exception or exit(1), the run has failed.
`,
    handler: `$job = json_decode(stream_get_contents(STDIN), true);
echo "try {$job['attempt']} with ", json_encode($job['data']), "\\n";

// After an uncaught exception or exit(1), the try has failed. exit(75) asks for another try.

// If the last line of the output is a JSON object, it is the result of the job.
echo json_encode(['done' => true]), "\\n";
`,
  },
};
