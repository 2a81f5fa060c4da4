import { importPeer, report, task, timed } from './child.ts';

interface PgBoss {
  start(): Promise<unknown>;
  stop(options: object): Promise<void>;
  createQueue(name: string): Promise<void>;
  insert(name: string, jobs: readonly object[]): Promise<unknown>;
  fetch(name: string, options: object): Promise<readonly { readonly id: string }[]>;
  complete(name: string, ids: readonly string[]): Promise<unknown>;
}

const { PgBoss: Boss } = await importPeer<{ readonly PgBoss: new (options: object) => PgBoss }>('pg-boss');
const name = 'no-op';
const AT_ONCE = 10_000;

/** One connection, and none of what it does besides. */
async function open(): Promise<PgBoss> {
  const boss = new Boss({ connectionString: task.url, max: 1, supervise: false, schedule: false });
  await boss.start();
  return boss;
}

async function fill(boss: PgBoss): Promise<void> {
  await boss.createQueue(name);
  for (let done = 0; done < task.jobs; done += AT_ONCE) {
    const count = Math.min(AT_ONCE, task.jobs - done);
    const jobs = Array.from({ length: count }, (_, index) => ({
      data: { to: `user-${done + index}@example.org`, template: 'welcome' },
    }));
    await boss.insert(name, jobs);
  }
  report(0);
}

async function work(workers: readonly PgBoss[]): Promise<void> {
  let done = 0;
  const startMs = performance.now();
  await Promise.all(
    workers.map(async (boss) => {
      while (done < task.jobs) {
        const jobs = await timed(() => boss.fetch(name, { batchSize: task.batch }));
        if (jobs.length === 0) break;
        await boss.complete(
          name,
          jobs.map(({ id }) => id),
        );
        done += jobs.length;
      }
    }),
  );
  report(performance.now() - startMs);
}

const workers: PgBoss[] = [];
for (let index = 0; index < (task.verb === 'fill' ? 1 : task.connections); index += 1) workers.push(await open());
if (task.verb === 'fill') await fill(workers[0] as PgBoss);
else await work(workers);
for (const boss of workers) await boss.stop({ graceful: false });
