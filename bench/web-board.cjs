// bull-board on any port of loopback, over a queue of BullMQ with so many jobs that wait. Prints its address.
const { createRequire } = require('node:module');
const [peers, redisPort, jobs] = process.argv.slice(2);
const load = createRequire(`${peers}/package.json`);
const { Queue } = load('bullmq');
const { createBullBoard } = load('@bull-board/api');
const { BullMQAdapter } = load('@bull-board/api/bullMQAdapter');
const { ExpressAdapter } = load('@bull-board/express');
const express = load('express');

async function main() {
  const queue = new Queue('bench', { connection: { host: '127.0.0.1', port: Number(redisPort) } });
  const all = Array.from({ length: Number(jobs) }, (_, index) => ({ name: 'no-op', data: { index } }));
  await queue.addBulk(all);
  const adapter = new ExpressAdapter();
  createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter: adapter });
  const app = express();
  app.use('/', adapter.getRouter());
  const server = app.listen(0, '127.0.0.1', () => {
    process.stdout.write(`http://127.0.0.1:${server.address().port}/\n`);
  });
}

main();
