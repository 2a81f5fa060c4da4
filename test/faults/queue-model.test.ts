import { rmSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import type { ClaimedJob, Queue } from '../../src/queue/api.ts';
import { QueueError } from '../../src/queue/errors.ts';
import { runWithFault } from '../support/faults/faults.ts';
import { findViolations } from '../support/faults/invariants.ts';
import { readLog } from '../support/faults/log-content.ts';
import { nodeHandler, programHandler } from '../support/faults/queue.ts';
import { drain, untilNothingRuns } from '../support/faults/queue-rounds.ts';
import { rounds, seed } from '../support/faults/rounds.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { story, type Verb, type Work } from './queue-story.ts';

const soon = '@retry-delay 1ms';

const files = {
  'jobs/queue/warm.mjs': nodeHandler({ tags: [soon] }),
  'jobs/queue/program.sh': programHandler({ tags: [soon], exit: 'times < 2 ? 75 : 0' }),
  'jobs/queue/fails.mjs': nodeHandler({ tags: [soon, '@retries 1'], does: 'throw new Error("no");' }),
  'jobs/queue/parent.mjs': nodeHandler({
    tags: [soon],
    does: 'if (children.finished.length + children.failed.length + children.cancelled.length === 0) await addChildren(2);',
  }),
  'jobs/queue/child.mjs': nodeHandler({ tags: [soon], does: 'if (data.index === 1) fail("no");' }),
};

test(`whatever is done to the queue, and whoever is killed, every job comes to its end (FAULT_SEED=${seed})`, async () => {
  await fc.assert(fc.asyncProperty(story, follow), { seed, numRuns: rounds(14), endOnFailure: true });
}, 400_000);

async function follow(steps: readonly (Verb | Work)[]): Promise<void> {
  const site = new Site(makeTemporaryRoot(files));
  for (const [index, step] of steps.entries()) {
    const wrong = await site.take(step);
    expect(wrong, `step ${index + 1}: ${JSON.stringify(step)}`).toEqual([]);
  }
  expect(await site.settle(), `at the end of ${JSON.stringify(steps)}`).toEqual([]);
  rmSync(site.root, { recursive: true });
}

/** A real root, and what was acknowledged there. */
class Site {
  readonly root: string;
  readonly #claims: ClaimedJob[] = [];
  readonly #added = new Set<number>();
  readonly #finished = new Set<number>();

  constructor(root: string) {
    this.root = root;
  }

  async take(step: Verb | Work): Promise<string[]> {
    if (step.do === 'work') await this.#work(step);
    else await this.#inQueue((queue) => this.#call(queue, step));
    return findViolations(this.root, { isSettled: false });
  }

  /** Nothing is paused, nothing is held: then all that is due ends. */
  async settle(): Promise<string[]> {
    await this.#inQueue(async (queue) => {
      for (const pattern of ['*', 'warm', 'p*']) await queue.resume(pattern);
      for (const claim of this.#claims) await this.#try(() => queue.retry(claim));
    });
    await untilNothingRuns(this.root);
    const wrong = await drain(this.root, 2);
    return [...wrong, ...this.#checkAcknowledged(), ...findViolations(this.root)];
  }

  async #work({ killedAt, meanwhile }: Work): Promise<void> {
    const calls = killedAt.map((at) => runWithFault(this.root, ['work'], at === null ? {} : { at: `after ${at}` }));
    await this.#inQueue(async (queue) => {
      for (const each of meanwhile) await this.#call(queue, each);
    });
    const ended = await Promise.all(calls);
    for (const { status, stderr } of ended) expect([0, 1, null], stderr).toContain(status);
  }

  async #inQueue(use: (queue: Queue) => Promise<unknown>): Promise<void> {
    const queue = await openQueue({ root: this.root });
    await use(queue).finally(() => queue.close());
  }

  async #call(queue: Queue, step: Verb): Promise<void> {
    await this.#try(async () => {
      switch (step.do) {
        case 'add':
          this.#added.add(await queue.add(step.name, { n: 1 }, step.options));
          break;
        case 'add a child':
          this.#added.add(await queue.add('child', { index: 7 }, { parent: this.#pick(step.job) }));
          break;
        case 'claim':
          await this.#claim(queue);
          break;
        case 'kick all':
          await queue.kickMany('*', 100);
          break;
        case 'pause':
        case 'fail-fast':
          await queue.pause(step.pattern, { fail: step.do === 'fail-fast' });
          break;
        case 'resume':
          await queue.resume(step.pattern);
          break;
        default:
          if ('claim' in step) await this.#end(queue, step);
          else await this.#act(queue, step);
      }
    });
  }

  async #claim(queue: Queue): Promise<void> {
    const claim = await queue.claim('*', { lease: '1h' });
    if (claim !== null) this.#claims.push(claim);
  }

  async #end(queue: Queue, step: Extract<Verb, { readonly claim: number }>): Promise<void> {
    const claim = this.#claims[step.claim % Math.max(this.#claims.length, 1)];
    if (claim === undefined) return;
    if (step.do !== 'finish') return await queue[step.do](claim);
    // One that has children waits for them, and is then run again.
    const isParent = readLog(this.root)?.jobs.some((job) => job.parent_id === claim.id);
    await queue.finish(claim, { result: 'acknowledged' });
    if (claim.repeat === null && !isParent) this.#finished.add(claim.id);
  }

  async #act(queue: Queue, step: Extract<Verb, { readonly do: 'kick' | 'cancel' | 'delete' | 'update' }>) {
    const id = this.#pick(step.job);
    if (step.do === 'update') return await queue.update(id, { priority: 700 });
    await queue[step.do](id);
    if (step.do === 'delete') this.#forget(id);
  }

  /** With its children. */
  #forget(id: number): void {
    const known = new Set(readLog(this.root)?.jobs.map((job) => job.id));
    for (const each of [id, ...this.#added, ...this.#finished]) {
      if (known.has(each)) continue;
      this.#added.delete(each);
      this.#finished.delete(each);
    }
  }

  #pick(index: number): number {
    const jobs = readLog(this.root)?.jobs ?? [];
    return jobs[index % Math.max(jobs.length, 1)]?.id ?? 1;
  }

  /** A verb that is refused has changed nothing; the invariants tell. */
  async #try(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof QueueError)) throw error;
    }
  }

  #checkAcknowledged(): string[] {
    const jobs = new Map(readLog(this.root)?.jobs.map((job) => [job.id, job]));
    const lost = [...this.#added].filter((id) => !jobs.has(id));
    const undone = [...this.#finished].filter(
      (id) => jobs.get(id)?.state !== 'finished' || jobs.get(id)?.result !== '"acknowledged"',
    );
    return [
      ...lost.map((id) => `job ${id} was added, and is lost`),
      ...undone.map((id) => `job ${id} was finished, and is ${jobs.get(id)?.state}`),
    ];
  }
}
