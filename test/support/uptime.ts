import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { afterAll, beforeAll } from 'vitest';

const { uptime } = os;

function setUptime(ask: typeof uptime): void {
  os.uptime = ask;
  syncBuiltinESMExports();
}

/**
 * To be called where tests are declared: nothing is overdue right after a boot, and the machine of these tests may have
 * been started a minute ago.
 */
export function pretendLongUptime(): void {
  beforeAll(() => setUptime(() => 86_400));
  afterAll(() => setUptime(uptime));
}
