import { executable, type FileContent } from '../places/temporary-root.ts';

/** What a handler does besides leaving evidence. */
export interface HandlerBehaviour {
  /** Its first comment: `@retries 1`. */
  readonly tags?: readonly string[];
  /** How long it works at least. */
  readonly lastsMs?: number;
  /**
   * JavaScript, before its end: `if (times < 2) retry()`. Known are `job`, with its parts as variables;
   * `times`, how often the job was started; `addChildren(2)`.
   */
  readonly does?: string;
}

/** Where handlers write down, out of any runner's reach, what they did. */
export const QUEUE_EVIDENCE = 'queue-evidence';
/** While this file is there, a handler whose worker has died goes on. */
export const HOLD = 'hold';

const library = new URL('../../../dist/index.mjs', import.meta.url).pathname;

/** A handler in JavaScript, to be kept warm unless it says `@isolate`. It returns the key of its run. */
export function nodeHandler({ tags = [], lastsMs = 0, does = '' }: HandlerBehaviour = {}): FileContent {
  return `/**
${tags.map((tag) => ` * ${tag}\n`).join('')} */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const root = process.env.RUNNER_ROOT;
const say = (text) => appendFileSync(\`\${root}/${QUEUE_EVIDENCE}\`, \`\${text}\\n\`);

function isAlive(pid) {
  try { return readFileSync(\`/proc/\${pid}/cmdline\`, 'utf8').includes('bin.cjs'); } catch { return false; }
}

async function hold(worker) {
  const isHeld = () => existsSync(\`\${root}/${HOLD}\`);
  // Who is being killed is still there for a while.
  for (let look = 0; look < 25 && isHeld() && isAlive(worker); look += 1) await sleep(20);
  while (isHeld() && !isAlive(worker)) await sleep(20);
}

export default async (job) => {
  const { id, attempt, children, data, retry, fail, update } = job;
  const run = process.env.RUNNER_RUN;
  say(\`started \${id} \${run} \${attempt}\`);
  const worker = process.ppid;
  const addChildren = async (count) => {
    const { openQueue } = await import('${library}');
    const queue = await openQueue({ root });
    for (let index = 0; index < count; index += 1) {
      await queue.add('child', { index }, { parent: id, uniqueKey: \`child:\${id}:\${index}\` });
    }
    await queue.close();
  };
  try {
    ${lastsMs > 0 ? `await sleep(${lastsMs});` : ''}
    await hold(worker);
    ${does.includes('times') ? `const times = readFileSync(\`\${root}/${QUEUE_EVIDENCE}\`, 'utf8').split(\`started \${id} \`).length - 1;` : ''}
    ${does}
  } catch (error) {
    say(\`ended \${id} \${run} failed\`);
    throw error;
  }
  say(\`ended \${id} \${run} done\`);
  return { run };
};
`;
}

/** The same as a program. What it does is its exit code, a shell expression over `attempt` and `times`. */
export function programHandler({
  tags = [],
  lastsMs = 0,
  exit = '0',
}: Omit<HandlerBehaviour, 'does'> & { readonly exit?: string } = {}): FileContent {
  return executable(`#!/bin/sh
${tags.map((tag) => `# ${tag}\n`).join('')}
cd "$RUNNER_ROOT"
attempt=$RUNNER_ATTEMPT
say() { echo "$1 $RUNNER_JOB $RUNNER_RUN $2" >> ${QUEUE_EVIDENCE}; }
say started "$attempt"
times=$(grep -c "^started $RUNNER_JOB " ${QUEUE_EVIDENCE})
${lastsMs > 0 ? `sleep ${lastsMs / 1000}` : ''}
[ ! -e ${HOLD} ] || sleep 0.1
while [ -e ${HOLD} ] && ! grep -q bin.cjs "/proc/$PPID/cmdline"; do sleep 0.02; done 2>/dev/null
code=$((${exit}))
[ "$code" = 0 ] && how=done || how=failed
say ended "$how"
echo "{\\"run\\":\\"$RUNNER_RUN\\"}"
exit "$code"
`);
}
