import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { promisify } from 'node:util';

/** Not one that the system gives to whoever connects: until the server takes it, some seconds pass. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 30_000);
    const listener = createServer().listen(port, '127.0.0.1');
    const isFree = await once(listener, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    await promisify(listener.close.bind(listener))();
    return port;
  }
}
