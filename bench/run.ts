/** `npm run bench -- tiers`, `npm run bench -- queue`: runs the bench of that name. */
const [name] = process.argv.slice(2);
const benches = ['tiers', 'queue'];
if (name === undefined || !benches.includes(name)) {
  process.stderr.write(`Which bench? There is: ${benches.join(', ')}\n`);
  process.exitCode = 2;
} else {
  await import(`./${name}.ts`);
}
