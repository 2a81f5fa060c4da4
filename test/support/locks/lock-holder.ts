import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readStatFields } from '../../../src/system/process/identity.ts';
import { nodeCache } from '../calls/run-command.ts';
import { type Started, startProcess } from '../calls/start-command.ts';
import { until } from '../until.ts';

/** A process that takes the lock `hourly` and tells what becomes of it; `test/support/faults/hold.child.ts`. */
export interface Holder extends Started {
  readDiary(): string[];
  /** Its answer to whether it got the lock. */
  answer(): Promise<'held' | 'refused'>;
  /** Whether it was stopped, by SIGSTOP. */
  isStopped(): boolean;
}

export interface HolderOptions {
  readonly refreshMs?: number;
  /** The command that gives it another place: `unshare --mount …`. */
  readonly within?: readonly string[];
  /** The signal that it sends itself before so manieth step in the locks' folder. */
  readonly atStep?: { readonly step: number; readonly signal: NodeJS.Signals };
}

const child = new URL('./hold.child.ts', import.meta.url).pathname;
const preload = new URL('./at-step.cjs', import.meta.url).pathname;
let count = 0;

export function startHolder(locks: string, { refreshMs, within = [], atStep }: HolderOptions = {}): Holder {
  count += 1;
  const diary = join(locks, '..', `diary-${count}`);
  const env = atStep && {
    NODE_OPTIONS: `--require=${preload}`,
    STEP_IN: locks,
    STEP_AT: String(atStep.step),
    STEP_SIGNAL: atStep.signal,
  };
  const node = [process.execPath, child, locks, diary, String(refreshMs ?? 10_000)];
  const [program = '', ...args] = [...within, ...node];
  const place = { cwd: '/', env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', ...nodeCache, ...env } };
  const started = startProcess(program, args, place);
  const readDiary = (): string[] => (existsSync(diary) ? readFileSync(diary, 'utf8').split('\n').slice(0, -1) : []);
  const findAnswer = () => readDiary().find((line) => line === 'held' || line === 'refused');
  return {
    ...started,
    readDiary,
    isStopped: () => readStatFields(started.pid)?.[0] === 'T',
    answer: async () => {
      await until('it knows whether it has the lock', () => findAnswer() !== undefined);
      return findAnswer() as 'held' | 'refused';
    },
  };
}
