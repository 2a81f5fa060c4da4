import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from '../support/command.ts';
import { type ExamplePlace, writeExampleFile } from '../support/site.ts';

/** The root of which README.md shows the report, without its scripts. */
export function makeExampleSite(place: ExamplePlace): void {
  writeExampleFile(place, 'uploads/photo.part', 'half a photo');
  writeExampleFile(place, 'orders.csv', '1001;shirt;2\n1002;cap;1\n');
}

/** Its passes up to now: the last line that was added to the orders is a broken one. */
export function livePast(place: ExamplePlace): void {
  for (let pass = 0; pass < 7; pass += 1) runTier(place, '15min');
  for (let pass = 0; pass < 5; pass += 1) runTier(place, 'hourly');
  writeFileSync(join(place.root, 'orders.csv'), '1001;shirt;2\n1002;cap;1\n1003;socks\n');
  runTier(place, 'hourly', 1);
}

function runTier({ root, env }: ExamplePlace, tier: string, exitCode = 0): void {
  const { status, stderr } = runCommand([tier], { cwd: root, env });
  if (status !== exitCode) throw new Error(`${tier} ended with ${status}: ${stderr}`);
}
