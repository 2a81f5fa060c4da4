import dns from 'node:dns';
import { connect, createServer } from 'node:net';
import { onTestFinished } from 'vitest';

const { lookup } = dns;

/** Browsers know that each name below `localhost` is this machine; the system of a test may not. */
dns.lookup = Object.assign(
  (name: string, ...rest: never[]) =>
    (lookup as (...args: unknown[]) => void)(/\.localhost$/i.test(name) ? '127.0.0.1' : name, ...rest),
  { __promisify__: lookup.__promisify__ },
) as typeof lookup;

/** As `ssh -L` does: whoever connects to the port of this machine that it resolves to is connected to the socket. */
export async function openTunnel(socketPath: string): Promise<number> {
  const tunnel = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ path: socketPath, allowHalfOpen: true });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => tunnel.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void tunnel.close());
  return (tunnel.address() as { port: number }).port;
}
