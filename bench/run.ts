/** `npm run bench -- tiers`: runs the bench of that name. */
const [name] = process.argv.slice(2);
const benches = ['tiers'];
if (name === undefined || !benches.includes(name)) {
  process.stderr.write(`Which bench? There is: ${benches.join(', ')}\n`);
  process.exitCode = 2;
} else {
  await import(`./${name}.ts`);
}
