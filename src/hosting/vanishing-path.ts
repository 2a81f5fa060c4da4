/** Where Node or a package lives only until the next upgrade, and what to do about it. */
const VANISHING: readonly (readonly [RegExp, string])[] = [
  [/\/_npx\//, "is in npx's cache, which npm empties: run `npm install folder-runner` first"],
  [/\/\.nvm\/versions\//, 'is one version of nvm and goes away when that version is removed'],
  [/\/nodevenv\//, 'is in nodevenv and changes when another Node version is chosen in the panel'],
  [/\/fnm_multishells\//, 'belongs to one shell session of fnm and goes away with it'],
  [/\/(?:\.fnm|fnm)\/node-versions\//, 'is one version of fnm and goes away when it is removed'],
  [/\/\.volta\/tools\//, 'is one version of Volta and goes away when it is removed'],
  [/\/(?:\.asdf|mise)\/installs\//, 'is one version of asdf or mise and goes away when removed'],
  [/\/Cellar\//, 'is one version of Homebrew and goes away with the next `brew upgrade`'],
  [/\/node_modules\/node[^/]*\//, 'comes with the npm package `node` and goes away with it'],
];

/** A sentence when cron would one day no longer find this file, else null. */
export function warnOfVanishingPath(path: string): string | null {
  const why = VANISHING.find(([pattern]) => pattern.test(path))?.[1];
  if (why === undefined) return null;
  return `${path} ${why}; run \`runner cron --install\` again after that, or cron will fail.`;
}
