/** The layers of docs/architecture.md, top to bottom: an import may only point downwards. */
const layers = [
  ['cli'],
  ['commands'],
  ['dashboard'],
  ['worker', 'report', 'queue/import'],
  ['checks'],
  ['monitor/alert'],
  ['monitor', 'worker/recovery'],
  ['queue', 'execution', 'hosting'],
  ['discovery', 'store/spool'],
  ['schedule'],
  ['store'],
  ['settings'],
  ['system/lock', 'system/place'],
  ['system/process'],
  ['system/base'],
];

/** A room within another is a layer of its own: `queue/import` is none of `queue`. */
const within = (name) =>
  layers
    .flat()
    .filter((other) => other.startsWith(`${name}/`))
    .map((other) => `(?!${other.slice(name.length + 1)}/)`)
    .join('');
const cli = '(bin|cli|web)\\.';
const folder = (name) => {
  if (name === 'cli') return `^src/commands/${cli}`;
  return `^src/${name}/${name === 'commands' ? `(?!${cli})` : within(name)}`;
};
const above = (index) => layers.slice(0, index).flat();
const beside = (name, index) => layers[index].filter((other) => other !== name);

const downwardsOnly = layers.flatMap((layer, index) =>
  layer
    .map((name) => ({
      name: `${name}-imports-downwards-only`,
      severity: 'error',
      from: { path: folder(name) },
      to: { path: [...above(index), ...beside(name, index)].map(folder) },
    }))
    .filter((rule) => rule.to.path.length > 0),
);

module.exports = {
  forbidden: [
    ...downwardsOnly,
    {
      name: 'child-imports-nothing-of-the-rest',
      comment: 'What is loaded into a script must stay small and know nothing of the runner.',
      severity: 'error',
      from: { path: '^src/child/' },
      to: { path: '^src/', pathNot: '^src/child/' },
    },
    {
      name: 'page-knows-the-api-alone',
      comment: 'What runs in a browser asks the server for all it shows. Figures, text and times are written alike.',
      severity: 'error',
      from: { path: '^src/dashboard/page/' },
      to: {
        path: '^src/',
        pathNot:
          '^src/(dashboard/(page/|client/paths)|system/base/(exact-json|format|glob|log-version|next-words|text|local-time|wait-words))',
      },
    },
    {
      name: 'what-the-page-shares-is-plain',
      comment: 'It is loaded into browsers: neither parts of Node, nor anything of this project.',
      severity: 'error',
      from: {
        path: '^src/system/base/(exact-json|format|glob|log-version|next-words|text|local-time|wait-words)\\.ts$',
      },
      to: { pathNot: 'node_modules' },
    },
    {
      name: 'no-cycles',
      severity: 'error',
      from: { pathNot: '^src/commands/' },
      to: { circular: true },
    },
    {
      name: 'no-cycles-of-commands',
      comment: 'What a command is given is a type of the table, which loads the command.',
      severity: 'error',
      from: { path: '^src/commands/' },
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-orphans',
      severity: 'error',
      from: { orphan: true, pathNot: '^src/(index|commands/(bin|cli)|child/|dashboard/(client/|page/))' },
      to: {},
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node'],
    },
  },
};
