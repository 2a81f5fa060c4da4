/** Refuses what comes too often; null: it may come, else after how many seconds it may come again. */
export interface Throttle {
  check(client: string, now: number): number | null;
}

/** As many clients as are remembered; of more, those that were not heard of for longest are forgotten. */
const MOST_CLIENTS = 10_000;

export interface Rate {
  readonly perSecond: number;
  /** How many at once. */
  readonly burst: number;
}

/** So many per second and client, and a number of them at once. */
export function createRateLimit({ perSecond, burst }: Rate): Throttle {
  const clients = new Map<string, { readonly left: number; readonly at: number }>();
  return {
    check: (client, now) => {
      const last = clients.get(client) ?? { left: burst, at: now };
      const left = Math.min(burst, last.left + (Math.max(0, now - last.at) / 1_000) * perSecond);
      clients.delete(client);
      clients.set(client, { left: left < 1 ? left : left - 1, at: now });
      if (clients.size > MOST_CLIENTS) clients.delete(clients.keys().next().value as string);
      return left < 1 ? Math.ceil((1 - left) / perSecond) : null;
    },
  };
}

/** Whom requests are counted for: an address, or of IPv6 the network that one customer gets. */
export function clientOf(address: string | undefined): string {
  if (address === undefined) return 'socket';
  const plain = address.replace(/^::ffff:/i, '');
  if (!plain.includes(':')) return plain;
  const [head = '', tail] = plain.split('::');
  const groups = head.split(':');
  const filled = tail === undefined ? groups : [...groups, ...Array(8).fill('0')];
  return filled.slice(0, 4).join(':');
}
