import { openQueue } from '../../src/index.ts';
import { inRoot, runner } from '../support/command.ts';
import { changeLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';

/** What would be seen if any of it took effect: a variable is set, or something is asked for. */
const hook = 'window.__xss=1';
const away = 'http://127.0.0.1:9/xss';

/** Ways out of where text stands: elements, attributes, scripts, styles, templates, addresses. */
export const breakouts: readonly string[] = [
  `<script>${hook}</script>`,
  `</script><script>${hook}</script>`,
  `<img src=x onerror=${hook}>`,
  `"><img src=${away} onerror="${hook}">`,
  `' onmouseover='${hook}' autofocus onfocus='${hook}`,
  `<svg onload=${hook}><animate onbegin=${hook}></svg>`,
  `<iframe srcdoc="<script>parent.__xss=1</script>"></iframe>`,
  `javascript:${hook}`,
  `<a href="javascript:${hook}">here</a>`,
  `<style>@import '${away}.css'; * { background: url(${away}.png) }</style>`,
  `</style><link rel=stylesheet href=${away}.css>`,
  `<base href=${away}/><meta http-equiv=refresh content="0;url=${away}">`,
  `{{constructor.constructor('${hook}')()}} \${${hook}} #{${hook}} <%= ${hook} %>`,
  `--><!--<img src=x onerror=${hook}>--> ]]>`,
  `</title></textarea></noscript><img src=x onerror=${hook}>`,
  `\u2028${hook}\u2029`,
  `\\u003cscript\\u003e${hook}\\u003c/script\\u003e &lt;img src=x onerror=${hook}&gt;`,
  `__proto__`,
];

const all = breakouts.join('\n');

/** What a terminal would obey, and what turns text around. */
const terminal = [
  '\u001b[31mred\u001b[0m \u001b[1;38;2;1;2;3mmany\u001b[0m',
  `\u001b[31m<img src=x onerror=${hook}>\u001b[0m`,
  `\u001b]8;;javascript:${hook}\u0007link\u001b]8;;\u0007`,
  `\u001b]0;title<script>${hook}</script>\u0007`,
  `\u001b[38;5;"><img src=x onerror=${hook}>m`,
  '\u202eright to left\u2066\u200f',
  'null\u0000byte \u009b31m \u0085 \ufffe',
].join('\n');

/** File names, with all that they may hold: no slash. */
const names = {
  element: `<img src=x onerror=${hook}>`,
  attribute: `"onmouseover="${hook}" '`,
  template: `{{constructor.constructor('${hook}')()}}`,
  address: 'javascript:%00%2e%2e#?&a=b',
};

export interface HostileRoot {
  readonly root: string;
  readonly scripts: readonly string[];
}

/** The handler that fails or returns what it got. */
const HANDLER = `export default (data) => {
  console.log(data);
  if (data.fails) throw Object.assign(new TypeError(data.text), { name: data.text, stack: data.text });
  return data;
};
`;

/** A root in which all that others can choose tries to take effect in a page: run for real, by a pass and a worker. */
export async function makeHostileRoot(): Promise<HostileRoot> {
  const printed = JSON.stringify(`${all}\n${terminal}\n`);
  const root = makeTemporaryRoot({
    [`jobs/hourly/${names.element}.mjs`]: `process.stdout.write(${printed}); process.exitCode = 3;\n`,
    [`jobs/hourly/${names.attribute}.mjs`]: `/** @description ${breakouts[1]}\n * @tags xss */\nthrow Object.assign(new Error(${printed}), { name: ${JSON.stringify(all)} });\n`,
    [`jobs/hourly/${names.template}.mjs`]: `process.stdout.write(${printed});\n`,
    [`jobs/hourly/${names.address}.sh`]: executable('#!/bin/sh\nkill -9 $$\n'),
    'jobs/queue/evil.mjs': HANDLER,
    [`jobs/queue/${names.element}.mjs`]: HANDLER,
    'runner.config.json': JSON.stringify({
      env: { EVIL: all },
      scripts: { [breakouts[0] as string]: { description: all } },
      alerts: { channels: [{ kind: 'command', run: `true '${all.replaceAll("'", '')}'` }] },
    }),
  });
  runner(root, 'hourly');
  await addJobs(root);
  runner(root, 'work');
  await inRoot(root, 'pause', `<img src=x onerror=${hook}>*`);
  await inRoot(root, 'mute', `${breakouts[3]}*`);
  return { root, scripts: Object.values(names).map((name) => `hourly/${name}`) };
}

async function addJobs(root: string): Promise<void> {
  const queue = await openQueue({ root });
  for (const [index, text] of breakouts.entries()) {
    const data = { text, [text]: [text], fails: index % 2 === 0 };
    const name = index % 3 === 0 ? names.element : 'evil';
    await queue.add(name, data, { uniqueKey: `${text} ${index}`, group: text });
  }
  await queue.close();
  // What only SQL can write, and nothing here is for.
  for (const text of breakouts)
    changeLog(root, "insert into jobs (name, data) values (?, json_object('text', ?))", text, text);
  changeLog(root, 'update jobs set reason = ?, concurrency_key = ? where id % 4 = 0 and tier is null', all, terminal);
}
