import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { requestRun } from '../../support/run.ts';

const hasProc = existsSync('/proc/self/stat');

test.runIf(hasProc)('runs side by side are not charged with each other’s CPU time', async () => {
  const busy = 'my $i = 0; $i++ while $i < 12e6;\nmy @t = times; print $t[0] + $t[1];\n';
  const requests = await Promise.all([
    requestRun('idle.sh', 'sleep 1\n'),
    requestRun('busy.pl', busy),
    requestRun('idle.sh', 'sleep 1\n'),
    requestRun('busy.pl', busy),
  ]);
  const [idle, busyOne, idleToo, busyOther] = await Promise.all(requests.map((request) => runScript(request)));
  for (const end of [idle, idleToo]) {
    // A busy one uses several times as much.
    expect((end?.userCpuMs ?? 1e9) + (end?.systemCpuMs ?? 1e9)).toBeLessThan(150);
  }
  for (const end of [busyOne, busyOther]) {
    const own = Number(end?.output.text) * 1000;
    const measured = (end?.userCpuMs ?? 0) + (end?.systemCpuMs ?? 0);
    expect(measured).toBeGreaterThan(own * 0.4);
    expect(measured).toBeLessThan(own * 1.25);
  }
});
